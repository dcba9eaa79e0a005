#include "engine/model_digest.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "kernels/cache.h"
#include "kernels/simd_targets.h"
#include "store/checksum.h"
#include "store/pack.h"

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
/// The first part of a split model may have no tensors.
Result<std::string> gguf_head(const store::Checkpoint& checkpoint) {
  std::uint64_t first = std::min(kMostText, checkpoint.files().front().size);
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

/// Adds the middle of an extent to the checksum. Of a pack all is read that has a checksum with it.
Status add_sample(io::Extent extent, const store::Pack* pack, io::Reader& reader,
                  MemoryLedger& ledger, store::Checksum& all) {
  const std::uint64_t bytes = std::min(extent.length, kSampleBytes);
  const std::uint64_t begin = extent.offset + (extent.length - bytes) / 2;
  store::Pack::Range range = {begin, begin + bytes};
  if (pack != nullptr) range = pack->whole_units(range);
  extent.offset = range.begin;
  extent.length = range.end - range.begin;
  SLUICE_ASSIGN(const Buffer room,
                Buffer::allocate(reader.room_for(extent.length), Tenant::program, ledger));
  SLUICE_ASSIGN(const auto read, io::read_now(reader, extent, room.bytes(), io::Purpose::other));
  all.add(
      read.subspan(static_cast<std::size_t>(begin - range.begin), static_cast<std::size_t>(bytes)));
  return {};
}

}  // namespace

Result<std::uint64_t> model_digest(const OpenedFiles& files, io::Reader& reader,
                                   kernels::WeightFormat cache_format, std::uint64_t ram) {
  SLUICE_ASSIGN(const std::string text, configuration(files.checkpoint));
  const Directory directory = directory_of(files.checkpoint);
  store::Checksum all;
  const std::uint64_t start[] = {hash_of(text), directory.sum, hash_of(kernels::simd_target())};
  all.add(std::as_bytes(std::span(start)));
  if (cache_format != kernels::WeightFormat::f32) {  // as it was before there was another
    const auto name = kernels::cache_format_name(cache_format);
    all.add(std::as_bytes(std::span(name.data(), name.size())));
  }
  MemoryLedger ledger(ram);
  const store::Pack* const pack = files.checkpoint.pack().get();
  for (const auto& [hash, tensor] : directory.sampled) {
    SLUICE_TRY(add_sample({files.ids[tensor.file], tensor.offset, tensor.bytes}, pack, reader,
                          ledger, all));
  }
  return all.take();
}

Result<std::uint64_t> adapter_digest(const model::AdapterLayout& adapter, io::Reader& reader) {
  store::Checksum all;
  const auto add = [&](std::uint64_t number) { all.add(std::as_bytes(std::span(&number, 1))); };
  add(adapter.extent.length);
  for (const std::int32_t pair : adapter.pair_of) add(static_cast<std::uint64_t>(pair));
  for (const auto& pair : adapter.pairs) {
    add(pair.rank);
    add(std::bit_cast<std::uint32_t>(pair.scale));
    for (const auto& piece : {pair.a, pair.b}) {
      add(piece.offset);
      add(static_cast<std::uint64_t>(piece.format));
    }
  }
  MemoryLedger unbounded(std::numeric_limits<std::uint64_t>::max());
  // Training changes every weight: parts of the same size, the middle of each.
  const std::uint64_t part = adapter.extent.length / kSampledTensors + 1;
  for (std::uint64_t at = 0; at < adapter.extent.length; at += part) {
    const std::uint64_t length = std::min(part, adapter.extent.length - at);
    SLUICE_TRY(add_sample({adapter.extent.file, adapter.extent.offset + at, length}, nullptr,
                          reader, unbounded, all));
  }
  return all.take();
}

}  // namespace sluice::engine
