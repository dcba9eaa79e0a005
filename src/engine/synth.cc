#include "engine/synth.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/size.h"
#include "engine/folder_lock.h"
#include "engine/synth_output.h"
#include "engine/synth_plan.h"
#include "engine/synth_texts.h"
#include "engine/synth_weights.h"
#include "io/file.h"
#include "store/checkpoint.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = std::size_t{4} << 20;  // drawn and written at a time
constexpr std::uint64_t kBlock = 4096;                     // of a file system
constexpr std::uint64_t kReportBytes = std::uint64_t{16} << 20;
constexpr const char* kMarker = "sluice-synth.json";
constexpr const char* kIndex = "model.safetensors.index.json";

Status check(const SynthOptions& options) {
  const auto in_range = [](const char* name, int value, int least, int most) -> Status {
    if (value >= least && value <= most) return {};
    return fail(ErrorKind::usage, "{}: expected {} to {}, found {}", name, least, most, value);
  };
  SLUICE_TRY(in_range("layers", options.layers, 2, 999));
  SLUICE_TRY(in_range("experts", options.experts, 1, 9999));
  SLUICE_TRY(in_range("vocabulary", options.vocabulary, 512, 1048576));
  return {};
}

/// What the folder is being filled with. Lies in it from the first to the last, so that an
/// interrupted run can be told from somebody's model.
std::string marker_text(const SynthOptions& options) {
  return fmt::format(
      "{{\"synthetic\": \"kimi-k3\", \"layers\": {}, \"experts\": {}, \"vocabulary\": {}, "
      "\"seed\": {}, \"sparse\": {}}}\n",
      options.layers, options.experts, options.vocabulary, options.seed, options.sparse);
}

/// Whether nothing but a marker lies in the folder.
bool is_unused(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() != kMarker) return false;
  }
  return !error;
}

/// Makes the folder. It must be unused, or hold this very checkpoint in part.
Status prepare_folder(const SynthOptions& options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (std::error_code ignored;
      fs::exists(options.folder, ignored) && !fs::is_directory(options.folder, ignored)) {
    return fail(ErrorKind::usage, "{}: is there and is no folder; give another name",
                options.folder.string());
  }
  if (error) {
    return fail(io::kind_of_refused_place(error.value()), "{}: the folder cannot be made: {}",
                options.folder.string(), error.message());
  }
  if (is_unused(options.folder)) return {};
  const auto marker = store::read_text(options.folder / kMarker, 4096);
  if (marker && *marker == marker_text(options)) return {};
  return fail(ErrorKind::usage, "{}: the folder is not empty and {}; choose another or empty it",
              options.folder.string(),
              marker ? fmt::format("holds a checkpoint made with other options: {}",
                                   marker->substr(0, marker->find('\n')))
                     : std::string("holds no checkpoint of ours to go on with"));
}

std::uint64_t size_of_file(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

/// Writes the whole checkpoint, shard by shard.
class Synthesis {
 public:
  Synthesis(const SynthOptions& options, const SynthSize& size,
            FunctionRef<void(const SynthProgress&)> progress, const Cancellation* cancellation)
      : options_(options), size_(size), progress_(progress), cancellation_(cancellation) {}

  Status run() {
    SLUICE_TRY(check_room());
    SLUICE_TRY(write_file(options_.folder / kMarker, marker_text(options_)));
    SLUICE_TRY(write_text("config.json", synth_config(options_)));
    SLUICE_TRY(write_text("generation_config.json", synth_generation_config(options_)));
    SLUICE_TRY(write_text("tokenizer_config.json", synth_tokenizer_config(options_)));
    SLUICE_TRY(write_text("tiktoken.model", synth_ranks(options_)));
    for (std::uint64_t index = 0; index < shard_count(options_); ++index) {
      const SynthShard shard = make_shard(options_, index);
      begin_shard(shard.file, index);
      SLUICE_TRY(write_shard(shard));
      report();
    }
    // The index comes last: as long as it is missing, nobody takes this for a model.
    return write_index();
  }

 private:
  /// Whether the drive has room for what is not written yet.
  Status check_room() const {
    std::uint64_t there = 0;
    for (std::uint64_t index = 0; index < shard_count(options_) && !options_.sparse; ++index) {
      there += size_of_file(options_.folder / shard_file(options_, index));
    }
    const std::uint64_t needed = size_.disk_bytes - std::min(size_.disk_bytes, there);
    std::error_code error;
    const fs::space_info space = fs::space(options_.folder, error);
    if (error || space.available >= needed)
      return {};  // what the system does not tell, writing will
    return fail(
        ErrorKind::drive,
        "{}: not enough room: {} more are needed, {} are free; make room, or write less of it with "
        "--layers or --experts, or no data with --sparse",
        options_.folder.string(), format_size(needed), format_size(space.available));
  }

  Status write_text(const char* name, const std::string& text) const {
    const fs::path path = options_.folder / name;
    if (size_of_file(path) == text.size()) return {};
    return write_file(path, text);
  }

  void begin_shard(std::string_view file, std::uint64_t index) {
    now_ = {file, index + 1, shard_count(options_), done_, size_.file_bytes};
  }

  void report() {
    reported_ = done_;
    now_.bytes_done = done_;
    progress_(now_);
  }

  Status write_shard(const SynthShard& shard) {
    const fs::path path = options_.folder / shard.file;
    if (size_of_file(path) == shard.file_bytes()) {
      done_ += shard.file_bytes();
      return {};
    }
    SLUICE_ASSIGN(OutputFile file, OutputFile::create(path));
    std::string start(8, '\0');
    for (std::size_t byte = 0; byte < 8; ++byte) {
      start[byte] = static_cast<char>(shard.header.size() >> (8 * byte));
    }
    SLUICE_TRY(file.write(start + shard.header));
    done_ += start.size() + shard.header.size();
    SLUICE_TRY(go_on());
    if (options_.sparse) {
      SLUICE_TRY(file.extend(shard.file_bytes()));
      done_ += shard.payload_bytes;
    } else {
      for (const SynthTensor& tensor : shard.tensors) SLUICE_TRY(write_tensor(tensor, file));
    }
    return file.commit();
  }

  Status write_tensor(const SynthTensor& tensor, OutputFile& file) {
    const WeightFiller filler(tensor, options_.seed);
    const std::uint64_t bytes = tensor.bytes();
    chunk_.resize(kChunkBytes);
    for (std::uint64_t offset = 0; offset < bytes; offset += kChunkBytes) {
      const std::size_t size = std::min<std::uint64_t>(kChunkBytes, bytes - offset);
      const std::span<std::byte> part(chunk_.data(), size);
      filler.fill(offset, part);
      SLUICE_TRY(file.write(part));
      done_ += size;
      if (done_ - reported_ >= kReportBytes) report();
      SLUICE_TRY(go_on());
    }
    return {};
  }

  Status go_on() const {
    if (cancellation_ == nullptr || !cancellation_->requested()) return {};
    return fail(ErrorKind::interrupted, "{}: interrupted; the same command goes on from here",
                options_.folder.string());
  }

  Status write_index() {
    SLUICE_ASSIGN(OutputFile file, OutputFile::create(options_.folder / kIndex));
    SLUICE_TRY(
        file.write(fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n"
                               "  \"weight_map\": {{\n",
                               size_.payload_bytes)));
    for (std::uint64_t index = 0; index < shard_count(options_); ++index) {
      const SynthShard shard = make_shard(options_, index);
      std::string lines;
      for (const SynthTensor& tensor : shard.tensors) {
        const bool last = index + 1 == shard_count(options_) && &tensor == &shard.tensors.back();
        fmt::format_to(std::back_inserter(lines), "    \"{}\": \"{}\"{}\n", tensor.name, shard.file,
                       last ? "" : ",");
      }
      SLUICE_TRY(file.write(lines));
    }
    SLUICE_TRY(file.write("  }\n}\n"));
    return file.commit();
  }

  const SynthOptions& options_;
  const SynthSize& size_;
  FunctionRef<void(const SynthProgress&)> progress_;
  const Cancellation* cancellation_;
  SynthProgress now_;
  std::uint64_t done_ = 0;
  std::uint64_t reported_ = 0;
  std::vector<std::byte> chunk_;
};

struct ShardSize {
  std::uint64_t tensors = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t index_bytes = 0;  // of its lines in the index
};

/// Sizes of shards. That of a layer hangs on its kind and on how many digits its number has, so
/// each such sort is measured once.
class ShardSizes {
 public:
  explicit ShardSizes(const SynthOptions& options) : options_(options) {}

  ShardSize of(std::uint64_t index) {
    const auto layer = static_cast<int>(index);
    if (layer == 0 || layer >= options_.layers) return measure(index);
    const auto digits = std::to_string(layer).size();
    ShardSize& known = known_[is_mla(options_, layer)][digits];
    if (known.tensors == 0) known = measure(index);
    return known;
  }

 private:
  ShardSize measure(std::uint64_t index) const {
    constexpr std::size_t kPunctuation = 12;  // of a line of the index
    const SynthShard shard = make_shard(options_, index);
    ShardSize size{shard.tensors.size(), shard.payload_bytes, shard.file_bytes(), 0};
    for (const SynthTensor& tensor : shard.tensors) {
      size.index_bytes += tensor.name.size() + shard.file.size() + kPunctuation;
    }
    return size;
  }

  const SynthOptions& options_;
  std::array<std::array<ShardSize, 4>, 2> known_;  // by kind and digits
};

}  // namespace

Result<SynthSize> synth_size(const SynthOptions& options) {
  SLUICE_TRY(check(options));
  SynthSize size;
  size.shards = shard_count(options);
  ShardSizes sizes(options);
  for (std::uint64_t index = 0; index < size.shards; ++index) {
    const ShardSize shard = sizes.of(index);
    size.tensors += shard.tensors;
    size.payload_bytes += shard.payload_bytes;
    size.file_bytes += shard.file_bytes;
    const std::uint64_t header_bytes = shard.file_bytes - shard.payload_bytes;
    size.disk_bytes += shard.index_bytes;
    size.disk_bytes += round_up(options.sparse ? header_bytes : shard.file_bytes, kBlock);
  }
  size.disk_bytes += synth_ranks(options).size() + 16 * kBlock;  // the small files, rounded up
  return size;
}

Status synthesize_kimi_k3(const SynthOptions& options,
                          FunctionRef<void(const SynthProgress&)> progress,
                          const Cancellation* cancellation) {
  SLUICE_ASSIGN(const SynthSize size, synth_size(options));
  SLUICE_TRY(prepare_folder(options));
  SLUICE_ASSIGN(const FolderLock lock, FolderLock::take(options.folder, "sluice synth"));
  return Synthesis(options, size, progress, cancellation).run();
}

}  // namespace sluice::engine
