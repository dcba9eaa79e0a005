// What `sluice info` knows about a model, without reading a weight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/reader.h"
#include "model/network.h"
#include "store/checkpoint.h"
#include "store/pack.h"

namespace sluice::cli {

/// A model's files and architecture, and what depends on nothing else.
struct ModelFacts {
  std::filesystem::path folder;
  std::vector<store::ShardFile> files;
  std::vector<std::string> notes;
  std::uint64_t file_bytes = 0;
  std::uint64_t tensors = 0;
  std::uint64_t payload_bytes = 0;
  std::shared_ptr<const store::Pack> pack;  ///< if it is one: `files` are its parts
  std::unique_ptr<io::Reader> reader;
  std::unique_ptr<model::Architecture> architecture;

  const model::Shape& shape() const { return architecture->shape(); }
  const model::Blueprint& blueprint() const { return architecture->blueprint(); }
  const model::ClassTotal& total(model::TensorClass tensor_class) const {
    return blueprint().totals[static_cast<std::size_t>(tensor_class)];
  }
};

/// Opens and checks the files, in further folders too, and lets go of the directory of names.
/// ErrorKind::model_files as in store::Checkpoint::open() and model::open_architecture().
Result<ModelFacts> gather_facts(const std::filesystem::path& path,
                                const std::vector<std::filesystem::path>& further = {});

/// Fails with ErrorKind::usage for more positions than the model was made for.
Status check_context(const ModelFacts& facts, std::optional<std::size_t> context);

/// What one token reads when nothing is in memory, in bytes.
struct TokenBytes {
  std::uint64_t trunk = 0;  ///< layers, final norms and output head
  std::uint64_t experts = 0;
  std::uint64_t embedding = 0;  ///< one row
  std::uint64_t sum() const { return trunk + experts + embedding; }
};
TokenBytes bytes_of_a_token(const ModelFacts& facts);

/// What a sequence keeps, in bytes.
struct StateBytes {
  std::uint64_t fixed = 0;
  std::uint64_t per_position = 0;
};
StateBytes state_of_a_sequence(const model::Architecture& architecture);

/// Routed experts of all layers.
std::uint64_t count_experts(const model::Blueprint& blueprint);

}  // namespace sluice::cli
