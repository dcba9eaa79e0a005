// Which files make up the model that a path stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/faults.h"
#include "store/index.h"

namespace sluice::store {

struct ModelFiles {
  std::filesystem::path folder;
  std::optional<Index> index;
  std::string index_name;           ///< in `folder`, when there is an index
  std::vector<std::string> shards;  ///< names in `folder` or one of the further ones, sorted
  bool is_gguf = false;             ///< GGUF files; otherwise safetensors
  std::vector<std::string> notes;   ///< what lies there and is left alone
};

/// Finds the weight files of the model at `path`: a folder, an index, or any of the weight files.
/// Siblings are found by the names in the folder, so links into a cache stay together. A folder
/// that holds no model but is a model's folder of a Hugging Face cache stands for its snapshot.
/// `further` folders may hold weight files that `path`'s folder does not; an index must be in the
/// latter. Fails with model_files when there is no one model to be found; what is wrong with the
/// model that was found goes to `faults`.
Result<ModelFiles> locate(const std::filesystem::path& path,
                          const std::vector<std::filesystem::path>& further, FaultList& faults);

/// The snapshot of a model's folder in a Hugging Face cache (refs/, snapshots/, blobs/).
Result<std::filesystem::path> snapshot_of(const std::filesystem::path& folder);

/// A file name of a set: "model-00003-of-000096.safetensors" is number 3 of 96. GGUF's sets are
/// named in the same way.
struct ShardName {
  std::string stem;          ///< "model"
  std::uint32_t number = 0;  ///< from 1
  std::uint32_t count = 0;
  std::size_t digits = 0;  ///< of the number as written
  std::string rest;        ///< "-of-000096.safetensors"

  static std::optional<ShardName> parse(std::string_view name,
                                        std::string_view suffix = ".safetensors");
  /// The file name of another number of the same set.
  std::string sibling(std::uint32_t other) const;
  bool same_set(const ShardName& other) const {
    return stem == other.stem && digits == other.digits && rest == other.rest;
  }
};

}  // namespace sluice::store
