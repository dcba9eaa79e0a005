#include "engine/model_digest.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "kernels/simd_targets.h"
#include "store/checksum.h"

namespace sluice::engine {
namespace {

constexpr std::uint64_t kMostText = std::uint64_t{64} << 20;
// Fine-tuning changes nearly every weight; these many tensors are looked at, in their middle.
constexpr std::size_t kSampledTensors = 64;
constexpr std::uint64_t kSampleBytes = 4096;

std::uint64_t hash_of(std::string_view text) {
  return store::checksum_of(std::as_bytes(std::span(text.data(), text.size())));
}

/// The first bytes of a GGUF file, up to its first tensor, hold all that it says about the model.
Result<std::string> gguf_head(const store::Checkpoint& checkpoint) {
  std::uint64_t first = kMostText;
  checkpoint.for_each([&](std::string_view, const store::Tensor& tensor) {
    if (tensor.file == 0) first = std::min(first, tensor.offset);
  });
  const auto& path = checkpoint.files().front().path;
  std::string text(static_cast<std::size_t>(first), '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(text.data(), static_cast<std::streamsize>(first))) {
    return fail(ErrorKind::drive, "{}: its header cannot be read", path.string());
  }
  return text;
}

Result<std::string> configuration(const store::Checkpoint& checkpoint) {
  if (checkpoint.metadata() != nullptr) return gguf_head(checkpoint);
  return store::read_text(checkpoint.folder() / "config.json", kMostText);
}

struct Directory {
  std::uint64_t sum = 0;                           // of all tensors' hashes, in any order
  std::map<std::uint64_t, store::Tensor> sampled;  // by hash; those of the smallest
};

Directory directory_of(const store::Checkpoint& checkpoint) {
  Directory directory;
  checkpoint.for_each([&](std::string_view name, const store::Tensor& tensor) {
    const std::uint64_t hash = hash_of(fmt::format("{} {} {}", name, static_cast<int>(tensor.dtype),
                                                   store::to_string(tensor.shape)));
    directory.sum += hash;
    if (tensor.bytes == 0) return;
    directory.sampled.emplace(hash, tensor);
    if (directory.sampled.size() > kSampledTensors) {
      directory.sampled.erase(std::prev(directory.sampled.end()));
    }
  });
  return directory;
}

}  // namespace

Result<std::uint64_t> model_digest(const OpenedFiles& files, io::Reader& reader) {
  SLUICE_ASSIGN(const std::string text, configuration(files.checkpoint));
  const Directory directory = directory_of(files.checkpoint);
  store::Checksum all;
  const std::uint64_t start[] = {hash_of(text), directory.sum, hash_of(kernels::simd_target())};
  all.add(std::as_bytes(std::span(start)));
  MemoryLedger unbounded(std::numeric_limits<std::uint64_t>::max());
  SLUICE_ASSIGN(const Buffer room,
                Buffer::allocate(reader.room_for(kSampleBytes), Tenant::program, unbounded));
  for (const auto& [hash, tensor] : directory.sampled) {
    const std::uint64_t bytes = std::min(tensor.bytes, kSampleBytes);
    const io::Extent extent = {files.ids[tensor.file], tensor.offset + (tensor.bytes - bytes) / 2,
                               bytes};
    SLUICE_ASSIGN(const auto sample,
                  io::read_now(reader, extent, room.bytes(), io::Purpose::other));
    all.add(sample);
  }
  return all.take();
}

}  // namespace sluice::engine
