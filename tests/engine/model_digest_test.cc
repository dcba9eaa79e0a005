// What saved sequences are told apart by: the same model has the same digest wherever it lies,
// another has another, even if only its weights differ.
#include "engine/model_digest.h"

#include <fstream>

#include "engine/golden.h"
#include "engine/pack_support.h"
#include "io/make_reader.h"
#include "store/gguf_files.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRam = std::uint64_t{1} << 30;

std::uint64_t digest_of(const fs::path& model,
                        kernels::WeightFormat cache_format = kernels::WeightFormat::f32) {
  auto reader = std::move(*io::make_reader(io::IoMode::pread, {}));
  const auto files = open_files(model, {}, reader);
  EXPECT_TRUE(files) << files.error().message;
  const auto digest = model_digest(*files, *reader, cache_format, kRam);
  EXPECT_TRUE(digest) << digest.error().message;
  return digest.value_or(0);
}

/// A copy of the demo model that may be changed.
class Copy {
 public:
  Copy() {
    std::string name = fs::temp_directory_path() / "sluice-digest-XXXXXX";
    path_ = ::mkdtemp(name.data());
    fs::copy(checkpoint_folder("k3-nano"), path_, fs::copy_options::recursive);
  }
  ~Copy() { fs::remove_all(path_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(ModelDigest, HangsOnTheModelAndNotOnItsPlace) {
  const std::uint64_t digest = digest_of(checkpoint_folder("k3-nano"));
  const Copy copy;
  EXPECT_EQ(digest_of(copy.path()), digest);
  EXPECT_NE(digest_of(copy.path(), kernels::WeightFormat::bf16), digest) << "other bits";
  EXPECT_NE(digest_of(copy.path(), kernels::WeightFormat::bf16),
            digest_of(copy.path(), kernels::WeightFormat::q8_0));
  std::ofstream(copy.path() / "config.json", std::ios::app) << "\n";
  EXPECT_NE(digest_of(copy.path()), digest) << "another configuration";
}

TEST(ModelDigest, OfAPackIsThatOfItsModelAndTakesNoMoreThanItMay) {
  const PackFolders folders;
  const auto where = folders.some(2);
  ASSERT_TRUE(pack_quietly(pack_options("k3-nano", where)));
  EXPECT_EQ(digest_of(where[0]), digest_of(checkpoint_folder("k3-nano")));
  auto reader = std::move(*io::make_reader(io::IoMode::pread, {}));
  const auto files = open_files(where[0], {}, reader);
  ASSERT_TRUE(files) << files.error().message;
  const auto digest = model_digest(*files, *reader, kernels::WeightFormat::f32, 8192);
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().kind, ErrorKind::memory);
}

std::string gguf_part(std::uint16_t number, const char* name, bool with_tensor) {
  store::GgufFile file;
  file.value("split.no", store::ValueType::u16, store::raw(number));
  file.value("split.count", store::ValueType::u16, store::raw(std::uint16_t{2}));
  file.value("split.tensors.count", store::ValueType::i32, store::raw(std::int32_t{1}));
  file.text("general.name", name);
  if (with_tensor) file.tensor("a", {64}, store::kGgmlF32, 256);
  return file.bytes();
}

TEST(ModelDigest, OfASplitGgufModelTakesAFirstPartWithoutTensors) {
  const PackFolders folders;
  const fs::path first = folders.root() / "m-00001-of-00002.gguf";
  std::ofstream(first, std::ios::binary) << gguf_part(0, "one", false);
  std::ofstream(folders.root() / "m-00002-of-00002.gguf", std::ios::binary)
      << gguf_part(1, "one", true);
  const std::uint64_t digest = digest_of(first);
  EXPECT_NE(digest, 0u);
  std::ofstream(first, std::ios::binary) << gguf_part(0, "two", false);
  EXPECT_NE(digest_of(first), digest) << "another configuration";
}

TEST(ModelDigest, SeesThatWeightsWereTrainedFurther) {
  const Copy copy;
  for (const auto& each : fs::directory_iterator(copy.path())) {
    if (each.path().extension() != ".safetensors") continue;
    std::fstream file(each.path(), std::ios::binary | std::ios::in | std::ios::out);
    std::uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    const auto start = static_cast<std::streamoff>(header + sizeof(header));
    file.seekg(start);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    for (std::size_t at = 0; at < bytes.size(); at += 2) {
      bytes[at] = static_cast<char>(bytes[at] ^ 1);  // the last bit of each bf16
    }
    file.clear();
    file.seekp(start);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  EXPECT_NE(digest_of(copy.path()), digest_of(checkpoint_folder("k3-nano")));
}

}  // namespace
}  // namespace sluice::engine
