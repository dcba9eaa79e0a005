#include "io/ring_flight.h"

#include <algorithm>
#include <cerrno>

namespace sluice::io {
namespace {

constexpr int kMostRepeats = 8;

}  // namespace

RingFlight::RingFlight(const Piece& piece, std::size_t max_call_bytes)
    : piece_(piece),
      file_(static_cast<DirectFile*>(piece.request->file.pieces.get())),
      max_call_bytes_(max_call_bytes) {}

std::uint64_t RingFlight::direct_left() const {
  const std::uint64_t wanted = file_->direct_length(piece_.offset, piece_.length);
  return buffered_ || wanted <= result_.outcome.got ? 0 : wanted - result_.outcome.got;
}

NextRead RingFlight::next() {
  const std::uint64_t got = result_.outcome.got;
  const std::uint64_t direct = direct_left();
  reading_direct_ = direct > 0;
  const std::uint64_t left = reading_direct_ ? direct : piece_.length - got;
  return {.descriptor = reading_direct_ ? file_->direct_descriptor() : file_->file().descriptor(),
          .to = piece_.to + got,
          .length = std::min<std::uint64_t>(left, max_call_bytes_),
          .offset = piece_.offset + got,
          .patient = retries_ > 0};
}

RingFlight::State RingFlight::advance(std::int64_t result) {
  if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) {
    return ++retries_ <= kMostRepeats ? State::more : State::stuck;
  }
  retries_ = 0;
  return reading_direct_ ? advance_direct(result) : advance_buffered(result);
}

RingFlight::State RingFlight::advance_direct(std::int64_t result) {
  if (result < 0 && DirectFile::refuses_direct(static_cast<int>(-result))) {
    file_->give_up_direct(static_cast<int>(-result));
    buffered_ = true;
    return State::more;
  }
  if (result < 0) return fail_with(result);
  const std::uint64_t usable =
      static_cast<std::uint64_t>(result) / file_->alignment() * file_->alignment();
  // Less than a block came: only a buffered read tells what is there.
  if (usable == 0) buffered_ = true;
  return take(usable);
}

RingFlight::State RingFlight::advance_buffered(std::int64_t result) {
  if (result < 0) return fail_with(result);
  if (result == 0) return State::over;  // the end of the file
  file_->drop_cache(piece_.offset + result_.outcome.got, static_cast<std::uint64_t>(result));
  return take(static_cast<std::uint64_t>(result));
}

RingFlight::State RingFlight::take(std::uint64_t bytes) {
  result_.transferred += bytes;
  std::uint64_t& got = result_.outcome.got;
  got = std::min(got + bytes, piece_.length);  // direct reads bring whole blocks
  return got == piece_.length ? State::over : State::more;
}

RingFlight::State RingFlight::fail_with(std::int64_t result) {
  result_.outcome.error = static_cast<int>(-result);
  return State::over;
}

void RingFlight::finish_here() {
  const std::uint64_t got = result_.outcome.got;
  const PieceResult rest =
      file_->read_buffered(piece_.offset + got, piece_.to + got, piece_.length - got);
  result_.outcome = {.got = got + rest.outcome.got, .error = rest.outcome.error};
  result_.transferred += rest.transferred;
}

}  // namespace sluice::io
