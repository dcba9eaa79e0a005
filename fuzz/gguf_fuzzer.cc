// The header of a GGUF file, from memory, and what is asked of its metadata.
//
// The first byte chooses how many bytes of data follow the input, so that sound headers are found.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "store/gguf.h"

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

/// Every value is asked for in every way.
void read_all(const Metadata& metadata) {
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const std::string key(metadata.key(i));
    static_cast<void>(metadata.count(key, 0, 1000));
    static_cast<void>(metadata.number(key));
    static_cast<void>(metadata.flag(key, false));
    static_cast<void>(metadata.text(key));
    static_cast<void>(
        metadata.for_each_text(key, [](std::uint64_t, std::string_view) { return Status(); }));
    static_cast<void>(
        metadata.for_each_integer(key, [](std::uint64_t, std::int64_t) { return Status(); }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint64_t data_bytes =
      data[0] < 250 ? std::uint64_t{data[0]} * 8 : std::uint64_t{1} << (data[0] - 220);
  const std::string_view start(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::uint64_t file_bytes = start.size() + data_bytes;
  TensorTable table;
  FaultList faults;
  GgufReader reader(table, faults);
  // A header that reaches into the data is cut off: those bytes are not there.
  std::string whole(start);
  if (data_bytes < 2000) whole.resize(file_bytes);
  reader.read_header(whole, whole.size() == file_bytes ? file_bytes : whole.size(), "fuzz", {});
  if (faults.empty()) {
    check_table(table, file_bytes);
    read_all(reader.take_metadata());
  }
  return 0;
}
