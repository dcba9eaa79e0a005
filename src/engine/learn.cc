#include "engine/learn.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <span>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/file.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'S', 'L', 'U', 'S', 'E', '0', '0', '1'};

// Uses of an earlier text count less than those of the one at hand.
constexpr float kOldUse = 0.5f;

/// What the file begins with; the uses follow layer by layer as float32, then XXH3-64 of all of it.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t fingerprint = 0;
  std::uint64_t layers = 0;
  std::uint64_t shape = 0;  // a hash of the numbers of experts, layer by layer
};

std::uint64_t shape_of(const weights::ExpertUse& use) {
  std::vector<std::uint64_t> counts;
  for (const std::vector<float>& layer : use) counts.push_back(layer.size());
  return XXH3_64bits(counts.data(), counts.size() * sizeof(std::uint64_t));
}

/// The first bytes of a file, at most `most`; none of what is no regular file (a pipe would never
/// end).
std::string contents_of(const fs::path& path, std::uint64_t most) {
  const auto file = io::File::open(path);
  if (!file) return "";
  std::string text(static_cast<std::size_t>(std::min(most, file->size())), '\0');
  if (!file->read_exact(0, std::as_writable_bytes(std::span(text)))) return "";
  return text;
}

/// The first eight bytes of a safetensors file are the length of its header.
std::string start_of(const fs::path& path) { return contents_of(path, 8); }

tl::unexpected<Error> not_usable(const fs::path& file, std::string_view why) {
  return fail(ErrorKind::model_files,
              "{}: {}; the record of used experts is started afresh (it affects speed only)",
              file.string(), why);
}

std::string serialized(std::uint64_t fingerprint, const weights::ExpertUse& use) {
  Header header;
  header.fingerprint = fingerprint;
  header.layers = use.size();
  header.shape = shape_of(use);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const std::vector<float>& layer : use) {
    bytes.append(reinterpret_cast<const char*>(layer.data()), layer.size() * sizeof(float));
  }
  const std::uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  return bytes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
}

tl::unexpected<Error> not_written(const fs::path& file, int error) {
  return fail(ErrorKind::drive, "{}: the record of used experts cannot be written: {}",
              file.string(), std::strerror(error));
}

}  // namespace

std::uint64_t fingerprint_of(const fs::path& folder, const std::vector<store::ShardFile>& files) {
  constexpr std::uint64_t kMostConfig = std::uint64_t{16} << 20;
  std::string text = contents_of(folder / "config.json", kMostConfig);
  if (text.empty()) return 0;
  for (const store::ShardFile& file : files) {
    text += fmt::format("\n{} {} ", file.path.filename().string(), file.size);
    text += start_of(file.path);
  }
  return XXH3_64bits(text.data(), text.size());
}

fs::path history_file(const fs::path& folder, std::uint64_t fingerprint) {
  return folder / fmt::format("experts-{:016x}.bin", fingerprint);
}

Result<weights::ExpertUse> load_history(const fs::path& file, std::uint64_t fingerprint,
                                        const weights::Blocks& blocks) {
  std::error_code error;
  if (!fs::exists(file, error)) return weights::ExpertUse{};
  weights::ExpertUse use;
  std::uint64_t experts = 0;
  for (const weights::ExpertLayer& layer : blocks.expert_layers) {
    use.emplace_back(layer.experts.size(), 0.0f);
    experts += layer.experts.size();
  }
  const std::uint64_t size = sizeof(Header) + experts * sizeof(float) + sizeof(std::uint64_t);
  const std::string bytes = contents_of(file, size + 1);
  if (bytes.size() != size) return not_usable(file, "its size is not that of this model's record");
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + size - sizeof(hash), sizeof(hash));
  if (hash != XXH3_64bits(bytes.data(), size - sizeof(hash))) {
    return not_usable(file, "its checksum is wrong");
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic || header.fingerprint != fingerprint || header.layers != use.size() ||
      header.shape != shape_of(use)) {
    return not_usable(file, "it belongs to another model or version");
  }
  const char* at = bytes.data() + sizeof(header);
  for (std::vector<float>& layer : use) {
    if (layer.empty()) continue;  // a layer without experts
    std::memcpy(layer.data(), at, layer.size() * sizeof(float));
    at += layer.size() * sizeof(float);
    for (float& each : layer) {
      if (!std::isfinite(each) || each < 0) return not_usable(file, "it holds impossible numbers");
      each *= kOldUse;
    }
  }
  return use;
}

Status save_history(const fs::path& file, std::uint64_t fingerprint,
                    const weights::ExpertUse& use) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) return not_written(file, error.value());
  const std::string bytes = serialized(fingerprint, use);
  std::string temporary = file.string() + ".XXXXXX";
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return not_written(file, errno);
  std::size_t done = 0;
  int failure = 0;
  while (done < bytes.size() && failure == 0) {
    const ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) failure = errno;
  }
  if (::close(descriptor) != 0 && failure == 0) failure = errno;
  if (failure == 0 && ::rename(temporary.c_str(), file.c_str()) != 0) failure = errno;
  if (failure == 0) return {};
  ::unlink(temporary.c_str());
  return not_written(file, failure);
}

}  // namespace sluice::engine
