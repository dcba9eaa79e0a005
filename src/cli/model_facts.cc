#include "cli/model_facts.h"

#include <malloc.h>

#include <algorithm>
#include <system_error>

#include "engine/open_files.h"
#include "io/make_reader.h"
#include "model/registry.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

bool has_weights(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (store::is_weights_name(at->path().filename().string())) return true;
  }
  return false;
}

/// A folder of small files only is what a download that has just begun looks like.
Status expect_weights(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path / "config.json", ignored) || has_weights(path)) return {};
  return fail(ErrorKind::model_files,
              "{}: there is a config.json but no weights (*.safetensors) beside it; download these "
              "too, or ask `sluice plan {}` about the config alone",
              path.string(), (path / "config.json").string());
}

}  // namespace

Result<ModelFacts> gather_facts(const fs::path& path, const std::vector<fs::path>& further) {
  if (further.empty()) SLUICE_TRY(expect_weights(path));
  ModelFacts facts;
  SLUICE_ASSIGN(facts.reader, io::make_reader(io::IoMode::automatic));
  SLUICE_ASSIGN(const engine::OpenedFiles opened, engine::open_files(path, further, facts.reader));
  const store::Checkpoint& checkpoint = opened.checkpoint;
  for (const store::ShardFile& file : checkpoint.files()) facts.file_bytes += file.size;
  SLUICE_ASSIGN(facts.architecture, model::open_architecture(checkpoint, opened.ids));
  facts.folder = checkpoint.folder();
  facts.files = checkpoint.files();
  facts.notes = checkpoint.notes();
  facts.tensors = checkpoint.tensor_count();
  facts.payload_bytes = checkpoint.payload_bytes();
  facts.pack = checkpoint.pack();
  return facts;
}

Status check_context(const ModelFacts& facts, std::optional<std::size_t> context) {
  const std::size_t most = facts.shape().max_positions;
  if (context.value_or(0) <= most) return {};
  return fail(ErrorKind::usage, "--ctx {}: this model was made for at most {} positions", *context,
              most);
}

TokenBytes bytes_of_a_token(const ModelFacts& facts) {
  using model::TensorClass;
  TokenBytes bytes;
  for (const auto each : {TensorClass::trunk, TensorClass::final_norms, TensorClass::head}) {
    bytes.trunk += facts.total(each).bytes;
  }
  const model::Blueprint& blueprint = facts.blueprint();
  for (const weights::ExpertLayer& layer : blueprint.blocks.expert_layers) {
    bytes.experts += std::min(blueprint.blocks.top_k, layer.experts.size()) * layer.block_bytes();
  }
  const model::EmbeddingTable& embedding = blueprint.embedding;
  if (embedding.rows > 0) bytes.embedding = embedding.extent.length / embedding.rows;
  return bytes;
}

StateBytes state_of_a_sequence(const model::Architecture& architecture) {
  // state_bytes() rounds up to pages; over this many positions that is nothing.
  constexpr int kShift = 24;
  const std::uint64_t once = architecture.state_bytes(std::size_t{1} << kShift);
  const std::uint64_t twice = architecture.state_bytes(std::size_t{2} << kShift);
  const std::uint64_t per_position = (twice - once + (std::uint64_t{1} << (kShift - 1))) >> kShift;
  return {once - (per_position << kShift), per_position};  // what no longer grows is fixed
}

std::uint64_t count_experts(const model::Blueprint& blueprint) {
  std::uint64_t count = 0;
  for (const weights::ExpertLayer& layer : blueprint.blocks.expert_layers) {
    count += layer.experts.size();
  }
  return count;
}

}  // namespace sluice::cli
