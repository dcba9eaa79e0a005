#include "store/gguf_cursor.h"

#include <algorithm>
#include <span>

#include "base/size.h"

namespace sluice::store {
namespace {

constexpr std::uint64_t kFirstRead = std::uint64_t{256} << 10;

}  // namespace

bool GgufWindow::reach(std::uint64_t end) {
  if (end <= bytes().size()) return true;
  if (file_ == nullptr || error_ || end > file_bytes_ || end > kMaxGgufHeaderBytes) return false;
  const std::uint64_t begin = room_->size();
  const std::uint64_t want = std::min(file_bytes_, std::max({end, kFirstRead, begin + begin / 2}));
  room_->resize(want);
  const auto read = file_->read_exact(
      begin, std::as_writable_bytes(std::span(room_->data() + begin, want - begin)));
  if (read) return true;
  room_->resize(begin);
  error_ = read.error();
  return false;
}

bool GgufCursor::take_text(std::uint64_t& offset, std::uint64_t& size, std::uint64_t most,
                           std::string_view what) {
  if (!take(size, what)) return false;
  if (size > most) {
    damaged("{} at byte {} is {} bytes long, expected at most {}", what, at_ - sizeof(size), size,
            most);
    return false;  // more likely a broken length than a long text
  }
  if (!available(size)) return broke_off(what);
  offset = at_;
  at_ += size;
  return true;
}

bool GgufCursor::available(std::uint64_t bytes) {
  return bytes <= file_bytes() && at_ <= file_bytes() - bytes && window_.reach(at_ + bytes);
}

bool GgufCursor::look_at_start(std::uint64_t bytes) {
  return window_.reach(std::min(bytes, file_bytes())) || broke_off("the start");
}

bool GgufCursor::broke_off(std::string_view what) {
  if (window_.error()) {
    faults_.add_error(*window_.error());
  } else if (file_bytes() > kMaxGgufHeaderBytes && at_ <= kMaxGgufHeaderBytes &&
             bytes().size() >= kMaxGgufHeaderBytes / 2) {
    damaged("{} reaches past {}, the longest header that Sluice reads", what,
            format_size(kMaxGgufHeaderBytes));
  } else {
    damaged("the file ends at byte {}, inside {} that begins at byte {}", file_bytes(), what, at_);
  }
  return false;
}

}  // namespace sluice::store
