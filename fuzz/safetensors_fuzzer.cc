// The header of a safetensors file, from memory and through a file.
//
// The input is the header; what a file has before and after it is made here. Its first byte chooses
// how many bytes of data follow, so that sound headers are found too.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/check.h"
#include "store/shard.h"

namespace {

using namespace sluice;
using namespace sluice::store;

/// Every tensor that was let through lies inside its file and is found by its name.
void check_table(const TensorTable& table, std::uint64_t file_bytes) {
  for (std::uint32_t index = 0; index < table.size(); ++index) {
    const Tensor tensor = table.tensor(index);
    SLUICE_CHECK(tensor.offset <= file_bytes && tensor.bytes <= file_bytes - tensor.offset);
    SLUICE_CHECK(table.find(table.name(index)) == index);
  }
}

void fuzz_memory(std::string_view json, std::uint64_t data_bytes) {
  PaddedText header;
  const auto room = header.resize(json.size());
  if (!json.empty()) std::memcpy(room.data(), json.data(), json.size());
  TensorTable table;
  FaultList faults;
  const std::uint64_t file_bytes = 8 + json.size() + data_bytes;
  ShardReader(table, faults).read_header(header, file_bytes, "fuzz");
  if (faults.empty()) check_table(table, file_bytes);
}

/// `bytes` is the start of a file; the rest is a hole.
void fuzz_file(std::string_view bytes, std::uint64_t file_bytes) {
  const int descriptor = memfd_create("fuzz", 0);
  if (descriptor < 0) return;
  SLUICE_CHECK(write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  SLUICE_CHECK(ftruncate(descriptor, static_cast<off_t>(file_bytes)) == 0);
  TensorTable table;
  FaultList faults;
  ShardReader(table, faults).read("/proc/self/fd/" + std::to_string(descriptor));
  if (faults.empty()) check_table(table, file_bytes);
  close(descriptor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint64_t data_bytes = data[0] < 250 ? data[0] : std::uint64_t{1} << (data[0] - 220);
  const std::string_view json(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz_memory(json, data_bytes);
  std::string file(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(file.data(), &length, sizeof(length));
  file += json;
  fuzz_file(file, file.size() + data_bytes);
  fuzz_file(json, json.size());  // the length too comes from the input
  return 0;
}
