// A checkpoint of one's own to damage.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/golden.h"
#include "store/checkpoint.h"

namespace sluice::engine {

/// A copy of a golden checkpoint in a temporary folder, which goes with it.
class CheckpointCopy {
 public:
  explicit CheckpointCopy(const std::string& name) {
    std::string folder = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    std::filesystem::copy(checkpoint_folder(name), folder_,
                          std::filesystem::copy_options::recursive);
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::permissions(entry, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
  }
  ~CheckpointCopy() { std::filesystem::remove_all(folder_); }
  CheckpointCopy(const CheckpointCopy&) = delete;
  CheckpointCopy& operator=(const CheckpointCopy&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

  /// Rewrites config.json by way of `change`.
  void change_config(const std::function<void(nlohmann::ordered_json& config)>& change) const {
    const auto path = folder_ / "config.json";
    std::ifstream in(path);
    auto config = nlohmann::ordered_json::parse(in);
    in.close();
    change(config);
    std::ofstream(path) << config.dump(1);
  }

  /// The bytes of a tensor, by way of `change`, and back.
  void change_tensor(const std::string& name,
                     const std::function<void(std::vector<char>& bytes)>& change) const {
    const auto checkpoint = store::Checkpoint::open(folder_);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto tensor = checkpoint->find(name);
    ASSERT_TRUE(tensor) << name;
    std::fstream file(checkpoint->files()[tensor->file].path,
                      std::ios::in | std::ios::out | std::ios::binary);
    std::vector<char> bytes(tensor->bytes);
    file.seekg(static_cast<std::streamoff>(tensor->offset));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    change(bytes);
    file.seekp(static_cast<std::streamoff>(tensor->offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.good());
  }

  /// The header of the shard that holds a tensor, by way of `change`, which must keep its length.
  /// Takes the index away, so that it cannot be what complains.
  void change_header(const std::string& tensor,
                     const std::function<void(std::string& header)>& change) const {
    const auto checkpoint = store::Checkpoint::open(folder_);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto found = checkpoint->find(tensor);
    ASSERT_TRUE(found) << tensor;
    std::fstream file(checkpoint->files()[found->file].path,
                      std::ios::in | std::ios::out | std::ios::binary);
    std::uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof(length));
    std::string header(length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(length));
    change(header);
    ASSERT_EQ(header.size(), length);
    file.seekp(sizeof(length));
    file.write(header.data(), static_cast<std::streamsize>(length));
    ASSERT_TRUE(file.good());
    std::filesystem::remove(folder_ / "model.safetensors.index.json");
  }

  /// An engine over the copy.
  Result<std::unique_ptr<Engine>> open(EngineOptions options = {}) const {
    options.model = folder_;
    options.context = 64;
    options.all_logits = true;
    return Engine::open(options);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace sluice::engine
