#include "store/faults.h"

namespace sluice::store {
namespace {

constexpr std::size_t kShownBytes = 160;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string shown(std::string_view text) {
  const bool cut = text.size() > kShownBytes;
  if (cut) {
    std::size_t end = kShownBytes;
    while (end > 0 && continues_character(text[end])) --end;
    text = text.substr(0, end);
  }
  std::string out = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // A name from a file must not steer the terminal that it is printed on.
    if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += cut ? "...'" : "'";
  return out;
}

void FaultList::add_error(Error error) {
  ++count_;
  drive_failed_ = drive_failed_ || error.kind == ErrorKind::drive;
  if (lines_.size() < kListed) lines_.push_back(std::move(error.message));
}

Error FaultList::to_error(std::string_view what) const {
  std::string message = fmt::format("{} cannot be opened: {} {} in its files", what, count_,
                                    count_ == 1 ? "fault" : "faults");
  for (const std::string& line : lines_) {
    message += "\n  ";
    message += line;
  }
  if (count_ > lines_.size()) {
    fmt::format_to(std::back_inserter(message), "\n  ... and {} more", count_ - lines_.size());
  }
  return {drive_failed_ ? ErrorKind::drive : ErrorKind::model_files, std::move(message)};
}

}  // namespace sluice::store
