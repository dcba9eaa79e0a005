#include "engine/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/size.h"
#include "engine/model_text.h"
#include "engine/read_ahead.h"
#include "engine/tensor_check.h"
#include "model/registry.h"
#include "store/checkpoint.h"
#include "store/faults.h"
#include "store/pack_companions.h"
#include "store/pack_reader.h"

namespace sluice::engine {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{8} << 20;
constexpr std::size_t kDepth = 5;

Status check_cancelled(const Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    return fail(ErrorKind::interrupted, "interrupted");
  }
  return {};
}

/// The pieces of a pack's stream: of whole units, about kPieceBytes or one unit if that is larger.
class PackPieces {
 public:
  PackPieces(const store::Pack& pack, std::size_t first_block)
      : pack_(pack), at_(pack.block_offset(first_block)) {}

  std::optional<io::Extent> next() {
    if (at_ >= pack_.stream_bytes()) return std::nullopt;
    const std::uint64_t begin = std::exchange(at_, end_of(at_));
    return io::Extent{store::kPackStream, begin, at_ - begin};
  }

  std::uint64_t longest() const {
    std::uint64_t longest = 0;
    for (std::uint64_t at = at_; at < pack_.stream_bytes();) {
      const std::uint64_t end = end_of(at);
      longest = std::max(longest, end - at);
      at = end;
    }
    return longest;
  }

 private:
  std::uint64_t end_of(std::uint64_t begin) const {
    const std::uint64_t end = std::min(begin + kPieceBytes, pack_.stream_bytes());
    const store::Pack::Range last_byte = pack_.whole_units({end - 1, end});
    // Not before a unit that begins after `begin`: the piece would grow by nearly a unit.
    return last_byte.end > end && last_byte.begin > begin ? last_byte.begin : last_byte.end;
  }

  const store::Pack& pack_;
  std::uint64_t at_;
};

/// The tensors of a checkpoint, file by file, in pieces.
class TensorPieces {
 public:
  TensorPieces(const store::Checkpoint& checkpoint, std::vector<io::FileId> files)
      : files_(std::move(files)) {
    checkpoint.for_each([&](std::string_view name, const store::Tensor& tensor) {
      tensors_.push_back({std::string(name), tensor, is_scale(checkpoint, name, tensor)});
    });
  }

  struct Each {
    std::string name;
    store::Tensor tensor;
    bool scale;
  };
  const Each& operator[](std::size_t tensor) const { return tensors_[tensor]; }
  std::size_t count() const { return tensors_.size(); }

  std::optional<io::Extent> next() {
    while (tensor_ < tensors_.size() && at_ == tensors_[tensor_].tensor.bytes) {
      ++tensor_;
      at_ = 0;
    }
    if (tensor_ == tensors_.size()) return std::nullopt;
    const store::Tensor& tensor = tensors_[tensor_].tensor;
    const std::uint64_t whole_blocks = kPieceBytes - kPieceBytes % bytes_of(tensor.dtype);
    const std::uint64_t length = std::min(whole_blocks, tensor.bytes - at_);
    const std::uint64_t offset = tensor.offset + std::exchange(at_, at_ + length);
    return io::Extent{files_[tensor.file], offset, length};
  }

 private:
  static bool is_scale(const store::Checkpoint& checkpoint, std::string_view name,
                       const store::Tensor& tensor) {
    if (tensor.dtype != DType::u8) return false;
    // As Kimi K3 names them, and gpt-oss.
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {".weight_scale", ".weight_packed"}, {"_scales", "_blocks"}};
    return std::ranges::any_of(kNames, [&](const auto& names) {
      const auto& [scales, codes] = names;
      if (!name.ends_with(scales)) return false;
      const auto stem = name.substr(0, name.size() - scales.size());
      return checkpoint.find(fmt::format("{}{}", stem, codes)).has_value();
    });
  }

  std::vector<io::FileId> files_;
  std::vector<Each> tensors_;
  std::size_t tensor_ = 0;
  std::uint64_t at_ = 0;
};

Status verify_tensors(const store::Checkpoint& checkpoint, io::Reader& reader,
                      const std::vector<io::FileId>& files, VerifyReport& report,
                      FunctionRef<void(std::uint64_t bytes_done)> progress,
                      const Cancellation* cancellation) {
  TensorPieces ahead(checkpoint, files);
  TensorPieces here = ahead;  // walks behind, to know what has come
  SLUICE_ASSIGN(const auto reads,
                ReadAhead::create(reader, kPieceBytes, kDepth, [&ahead] { return ahead.next(); }));
  report.pieces = here.count();
  std::size_t tensor = 0;
  TensorCheck check;
  const auto finish = [&] {
    const auto& [name, facts, scale] = here[tensor];
    if (const auto what = check.take(facts, scale)) {
      report.add({ErrorKind::model_files, fmt::format("{}: tensor {}: {}; download the file again",
                                                      checkpoint.files()[facts.file].path.string(),
                                                      store::shown(name), *what)});
    }
  };
  std::uint64_t done_of_tensor = 0;
  while (auto bytes = reads->next()) {
    SLUICE_TRY(check_cancelled(cancellation));
    const io::Extent extent = *here.next();
    while (done_of_tensor == here[tensor].tensor.bytes) {  // and past those of no bytes
      ++tensor;
      done_of_tensor = 0;
    }
    const std::uint64_t at = std::exchange(done_of_tensor, done_of_tensor + extent.length);
    if (*bytes) {
      check.add(here[tensor].tensor, here[tensor].scale, at, **bytes);
    } else {
      report.add({bytes->error().kind, fmt::format("{} (tensor {})", bytes->error().message,
                                                   store::shown(here[tensor].name))});
    }
    report.bytes += extent.length;
    if (done_of_tensor == here[tensor].tensor.bytes) finish();
    progress(report.bytes);
  }
  return {};
}

std::uint64_t bytes_of_copies(const store::Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for (const store::ShardFile& file : checkpoint.files()) bytes += file.size * file.copies.size();
  return bytes;
}

/// Reads a file and one copy of it side by side, and adds a fault for the first byte that differs.
Status compare_copy(io::Reader& reader, const store::ShardFile& file, io::FileId original,
                    const std::filesystem::path& path, VerifyReport& report,
                    FunctionRef<void(std::uint64_t bytes_done)> progress,
                    const Cancellation* cancellation) {
  SLUICE_ASSIGN(const io::FileId copy, reader.open(path));
  std::uint64_t at = 0;
  bool is_copy = false;  // the next piece: first the original's, then the copy's
  const auto source = [&]() -> std::optional<io::Extent> {
    if (at == file.size) return std::nullopt;
    const std::uint64_t length = std::min(kPieceBytes, file.size - at);
    const io::Extent extent{is_copy ? copy : original, at, length};
    if (is_copy) at += length;
    is_copy = !is_copy;
    return extent;
  };
  SLUICE_ASSIGN(const auto reads, ReadAhead::create(reader, kPieceBytes, kDepth, source));
  std::vector<std::byte> expected;
  for (std::uint64_t offset = 0; offset < file.size; offset += expected.size()) {
    SLUICE_TRY(check_cancelled(cancellation));
    const auto first = reads->next();
    if (*first) expected.assign((*first)->begin(), (*first)->end());
    const auto second = reads->next();
    if (!*first || !*second) {
      const Error& error = *first ? second->error() : first->error();
      report.add({error.kind, error.message});
      return {};
    }
    const auto [differs, unused] = std::ranges::mismatch(expected, **second);
    if (differs != expected.end()) {
      report.add({ErrorKind::model_files,
                  fmt::format("{}: differs from {} at byte {}; copy the file again", path.string(),
                              file.path.string(),
                              offset + static_cast<std::uint64_t>(differs - expected.begin()))});
      return {};
    }
    report.bytes += expected.size();
    progress(report.bytes);
  }
  return {};
}

Status compare_copies(const store::Checkpoint& checkpoint, io::Reader& reader,
                      const std::vector<io::FileId>& files, VerifyReport& report,
                      FunctionRef<void(std::uint64_t bytes_done)> progress,
                      const Cancellation* cancellation) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const store::ShardFile& file = checkpoint.files()[i];
    for (const std::filesystem::path& copy : file.copies) {
      SLUICE_TRY(compare_copy(reader, file, files[i], copy, report, progress, cancellation));
    }
  }
  return {};
}

/// What a run opens beside the weights. A tokenizer is looked at only where the files are those
/// that were packed: else its faults would say the same in other words.
void verify_rest(const store::Checkpoint& checkpoint, const std::vector<io::FileId>& files,
                 const std::filesystem::path& model, VerifyReport& report) {
  if (const auto& pack = checkpoint.pack(); pack != nullptr) {
    for (Error& error : store::wrong_companions(pack->companions(), checkpoint.folder())) {
      report.add({error.kind, std::move(error.message)});
    }
    if (report.faults > 0) return;
  }
  const auto architecture = model::open_architecture(
      checkpoint, checkpoint.pack() == nullptr ? files : std::vector{store::kPackStream});
  if (!architecture) report.add({architecture.error().kind, architecture.error().message});
  if (const Status text = check_text(model); !text) {
    report.add({text.error().kind, text.error().message});
  }
}

}  // namespace

void VerifyReport::add(VerifyFault fault) {
  ++faults;
  if (listed.size() < kMostListed) listed.push_back(std::move(fault));
}

Status verify_stream(const std::shared_ptr<const store::Pack>& pack,
                     std::unique_ptr<io::Reader> reader, std::vector<io::FileId> parts,
                     std::size_t first_block,
                     FunctionRef<void(std::size_t block, VerifyFault)> on_fault, BlockDone on_done,
                     const Cancellation* cancellation) {
  const auto stream =
      store::make_pack_reader(std::move(reader), pack, std::move(parts), store::PackCheck::off);
  PackPieces pieces(*pack, first_block);
  PackPieces behind = pieces;
  SLUICE_ASSIGN(const auto reads, ReadAhead::create(*stream, pieces.longest(), kDepth,
                                                    [&pieces] { return pieces.next(); }));
  std::size_t block = first_block;
  const auto move_to = [&](std::uint64_t offset) {
    while (block < pack->blocks() && pack->block_offset(block + 1) <= offset) ++block;
  };
  while (auto bytes = reads->next()) {
    SLUICE_TRY(check_cancelled(cancellation));
    const io::Extent extent = *behind.next();
    if (*bytes) {
      pack->check(extent.offset, **bytes, [&](store::PackFault fault) {
        move_to(fault.offset);
        on_fault(block, {ErrorKind::model_files, std::move(fault.message)});
      });
    } else {
      move_to(extent.offset);
      on_fault(block, {bytes->error().kind, bytes->error().message});
    }
    move_to(extent.offset + extent.length);
    SLUICE_TRY(on_done(block));
  }
  return {};
}

Result<VerifyReport> verify(const VerifyOptions& options,
                            FunctionRef<void(const VerifyProgress&)> progress,
                            const Cancellation* cancellation) {
  VerifyReport report;
  const auto checkpoint = store::Checkpoint::open(options.model, options.model_folders);
  if (!checkpoint) {
    const ErrorKind kind = checkpoint.error().kind;
    if (kind != ErrorKind::model_files && kind != ErrorKind::drive) {
      return tl::unexpected(checkpoint.error());
    }
    report.add({kind, checkpoint.error().message});
    return report;
  }
  SLUICE_ASSIGN(std::unique_ptr<io::Reader> reader, io::make_reader(options.io));
  if (options.wrap_reader) reader = options.wrap_reader(std::move(reader));
  std::vector<io::FileId> files;
  for (const store::ShardFile& file : checkpoint->files()) {
    SLUICE_ASSIGN(const io::FileId id, reader->open(file.path));
    files.push_back(id);
  }
  verify_rest(*checkpoint, files, options.model, report);
  const auto& pack = checkpoint->pack();
  if (pack == nullptr) {
    const std::uint64_t total = checkpoint->payload_bytes() + bytes_of_copies(*checkpoint);
    const auto show = [&](std::uint64_t done) { progress({done, total}); };
    SLUICE_TRY(verify_tensors(*checkpoint, *reader, files, report, show, cancellation));
    SLUICE_TRY(compare_copies(*checkpoint, *reader, files, report, show, cancellation));
    return report;
  }
  report.is_pack = true;
  report.pieces = pack->blocks();
  SLUICE_TRY(verify_stream(
      pack, std::move(reader), files, 0,
      [&](std::size_t, VerifyFault fault) { report.add(std::move(fault)); },
      [&](std::size_t block) -> Status {
        report.bytes = pack->block_offset(block);
        progress({report.bytes, pack->stream_bytes()});
        return {};
      },
      cancellation));
  return report;
}

}  // namespace sluice::engine
