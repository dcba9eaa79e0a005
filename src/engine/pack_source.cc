#include "engine/pack_source.h"

#include "engine/open_files.h"
#include "engine/pack_folders.h"
#include "model/registry.h"

namespace sluice::engine {
namespace {

// A pack is read tensor by tensor for another, and has one checksum for all tensors of an expert
// (K3: 17 MB), which is read anew for each. There is no budget to keep here.
constexpr std::uint64_t kMostBounce = std::uint64_t{256} << 20;

}  // namespace

Result<PackSource> open_pack_source(const PackOptions& options) {
  PackSource source;
  SLUICE_ASSIGN(source.reader, io::make_reader(options.io));
  if (options.wrap_reader) source.reader = options.wrap_reader(std::move(source.reader));
  SLUICE_ASSIGN(OpenedFiles opened,
                open_files(options.model, options.model_folders, source.reader, kMostBounce));
  const std::vector<io::FileId> files = std::move(opened.ids);
  source.checkpoint = std::move(opened.checkpoint);
  if (source.checkpoint->metadata() != nullptr) {
    return fail(ErrorKind::usage,
                "{}: a GGUF model; sluice pack takes models in safetensors files (and packs)",
                options.model.string());
  }
  SLUICE_ASSIGN(const auto architecture, model::open_architecture(*source.checkpoint, files));
  if (architecture->blueprint().experts_share_tensors) {
    return fail(
        ErrorKind::usage,
        "{}: all experts of a layer lie in the same tensors; sluice pack takes models whose "
        "experts have tensors of their own",
        options.model.string());
  }
  source.layout = lay_out_pack(*source.checkpoint, files, architecture->blueprint());
  for (const std::string& pattern : source.layout.index.patterns) {
    if (pattern.size() <= store::kMostPatternBytes) continue;
    return fail(
        ErrorKind::usage,
        "{}: a tensor's name has {} bytes without its numbers; sluice pack takes at most {}",
        options.model.string(), pattern.size(), store::kMostPatternBytes);
  }
  source.layout.index.chunk_bytes = options.chunk_bytes;
  SLUICE_ASSIGN(source.companions, find_companions(source.checkpoint->folder()));
  return source;
}

}  // namespace sluice::engine
