// The models that the command line's tests run on, and what is known about them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

inline const std::string kNano = SLUICE_SOURCE_DIR "/models/k3-nano";
inline const std::string kTiny = SLUICE_SOURCE_DIR "/tests/golden/k3-tiny/checkpoint";

/// Where scripts/fetch-test-models puts real models: of the user's environment, which tests change.
extern const fs::path kRealModels;

std::string read_file(const fs::path& path);
void write_file(const fs::path& path, std::string_view bytes);

/// tests/golden/MODEL/golden.json
Json golden_of(const std::string& model);

/// The prompt of this name in a golden.json.
Json prompt_of(const Json& golden, const std::string& name);

/// "1,2,3"
std::string joined(const Json& ids);

/// The lines of text that end.
std::size_t lines_of(std::string_view text);

/// Where a tensor lies: file name, and offset and size in bytes.
struct Place {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
Place place_of(const std::string& model, const std::string& tensor);

/// A folder that goes away with its test.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// A copy of a model, to be damaged.
class ModelCopy {
 public:
  explicit ModelCopy(const std::string& model);
  std::string path() const { return folder_.path().string(); }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  /// Puts bytes at the beginning of a tensor.
  void overwrite(const std::string& tensor, std::string_view bytes) const;

 private:
  Folder folder_;
};

/// An array as `sluice logits` writes it.
struct Array {
  std::string descr;
  std::vector<std::uint64_t> shape;
  std::vector<float> floats;
  std::vector<std::int32_t> ints;
};

/// Reads a .npy file the way its format's description says.
Array read_npy(const fs::path& path);

}  // namespace sluice::cli
