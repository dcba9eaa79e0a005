// The index of a model in several files, from memory and beside two shards.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "store/checkpoint.h"
#include "store/index.h"

namespace {

using namespace sluice;
using namespace sluice::store;

/// A folder with the shards "a" (tensors x.1 and x.2) and "b" (y), removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-fuzz-XXXXXX").string();
    SLUICE_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
    write_shard("a",
                R"({"x.1":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("x.2":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                2);
    write_shard("b", R"({"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  void write(const char* name, std::string_view bytes) const {
    std::filesystem::remove(path_ / name);
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  void write_shard(const char* name, std::string_view header, std::size_t data_bytes) const {
    std::string file(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(file.data(), &length, sizeof(length));
    file += header;
    file.append(data_bytes, '\0');
    write(name, file);
  }

  std::filesystem::path path_;
};

void fuzz_memory(std::string_view json) {
  PaddedText text;
  const auto room = text.resize(json.size());
  if (!json.empty()) std::memcpy(room.data(), json.data(), json.size());
  FaultList faults;
  auto index = Index::parse(std::move(text), "fuzz", faults);
  SLUICE_CHECK(index || !faults.empty());
  if (!index) return;
  index->for_each(
      [&](std::string_view, std::uint32_t shard) { SLUICE_CHECK(shard < index->shards().size()); });
  for (const std::string& shard : index->shards()) {
    SLUICE_CHECK(std::filesystem::path(shard).filename() == shard && shard != "..");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  fuzz_memory(json);
  folder.write("model.safetensors.index.json", json);
  const auto checkpoint = Checkpoint::open(folder.path());
  if (checkpoint) SLUICE_CHECK(checkpoint->tensor_count() > 0);
  return 0;
}
