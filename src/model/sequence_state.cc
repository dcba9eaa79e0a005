// Sequences as bytes: a header, then the pieces that the positions fill.
#include <cstring>

#include "base/check.h"
#include "model/network.h"

namespace sluice::model {
namespace {

constexpr std::uint64_t kMark = 0x3165746174536c53;  // "SlState1"

struct Header {
  std::uint64_t mark = kMark;
  std::uint64_t layout = 0;
  std::uint64_t length = 0;
  std::uint64_t bytes = 0;  // header included
};

/// FNV-1a over the sizes of pieces.
class LayoutHash {
 public:
  void add(std::uint64_t size) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ (size >> (8 * byte) & 0xff)) * 0x100000001b3;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace

std::uint64_t SequenceState::saved_bytes() const {
  std::uint64_t bytes = sizeof(Header);
  for_each_piece(length_, [&](std::span<std::byte> piece) { bytes += piece.size(); });
  return bytes;
}

/// Equal for states of as many positions whose pieces mean the same, whatever their contexts: the
/// sizes at no position and at one tell the fixed parts from those that grow.
std::uint64_t SequenceState::layout(std::uint64_t positions) const {
  LayoutHash hash;
  hash.add(positions);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}}) {
    for_each_piece(length, [&](std::span<std::byte> piece) { hash.add(piece.size()); });
  }
  return hash.value();
}

void SequenceState::save(std::span<std::byte> room) const {
  SLUICE_CHECK(room.size() == saved_bytes());
  std::byte* out = room.data();
  const auto copied = write([&](std::span<const std::byte> piece) -> Status {
    if (!piece.empty()) std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
    return {};
  });
  SLUICE_CHECK(copied.has_value());
}

Status SequenceState::write(FunctionRef<Status(std::span<const std::byte> piece)> sink) const {
  const Header header = {kMark, layout(length_), length_, saved_bytes()};
  Status status = sink(std::as_bytes(std::span(&header, 1)));
  for_each_piece(length_, [&](std::span<std::byte> piece) {
    if (status) status = sink(piece);
  });
  return status;
}

Status SequenceState::load(std::span<const std::byte> saved) {
  return read(saved.size(), [&](std::span<std::byte> piece) -> Status {
    if (!piece.empty()) std::memcpy(piece.data(), saved.data(), piece.size());
    saved = saved.subspan(piece.size());
    return {};
  });
}

Status SequenceState::read(std::uint64_t bytes,
                           FunctionRef<Status(std::span<std::byte> piece)> source) {
  reset();
  SLUICE_ASSIGN(const std::size_t length, read_head(bytes, source));
  Status status;
  for_each_piece(length, [&](std::span<std::byte> piece) {
    if (status) status = source(piece);
  });
  if (!status) {
    reset();
    return status;
  }
  length_ = length;
  return {};
}

/// The positions held by a saved sequence of `bytes` bytes, its header checked.
Result<std::size_t> SequenceState::read_head(
    std::uint64_t bytes, FunctionRef<Status(std::span<std::byte> piece)> source) const {
  Header header;
  if (bytes < sizeof(header)) return fail(ErrorKind::usage, "a saved sequence is cut off");
  SLUICE_TRY(source(std::as_writable_bytes(std::span(&header, 1))));
  if (header.mark != kMark || header.bytes != bytes) {
    return fail(ErrorKind::usage, "a saved sequence is damaged or cut off");
  }
  if (header.layout != layout(header.length)) {
    return fail(ErrorKind::usage, "a saved sequence is damaged or belongs to another model");
  }
  if (header.length > context_) {
    return fail(ErrorKind::usage, "a saved sequence of {} positions does not fit into {}",
                header.length, context_);
  }
  std::uint64_t sum = sizeof(header);
  for_each_piece(header.length, [&](std::span<std::byte> piece) { sum += piece.size(); });
  if (sum != bytes) return fail(ErrorKind::usage, "a saved sequence is damaged");
  return header.length;
}

}  // namespace sluice::model
