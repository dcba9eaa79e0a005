#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

namespace sluice::text {
namespace {

constexpr std::uint32_t kFree = 0xFFFFFFFF;
// With slots at most two thirds full, chains this long come only from a file that is made for them.
constexpr std::size_t kLongestChain = 1024;

std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = bytes.size() * 0x9E3779B97F4A7C15u;
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), size);
    bytes.remove_prefix(size);
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return hash * 0x9E3779B97F4A7C15u >> 20;
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

// Appends what padded base64 stands for; false if it is not padded base64 of one byte or more.
bool append_base64(std::string_view code, std::vector<char>& bytes) {
  if (code.empty() || code.size() % 4 != 0) return false;
  const std::size_t padding = code.ends_with("==") ? 2 : code.ends_with('=') ? 1 : 0;
  for (std::size_t at = 0; at < code.size(); at += 4) {
    const std::size_t missing = at + 4 == code.size() ? padding : 0;
    unsigned bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const int value = i < 4 - missing ? base64_value(code[at + i]) : 0;
      if (value < 0) return false;
      bits = bits << 6 | static_cast<unsigned>(value);
    }
    for (std::size_t i = 0; i < 3 - missing; ++i) {
      bytes.push_back(static_cast<char>(bits >> (16 - 8 * i) & 0xFF));
    }
  }
  return true;
}

// For messages: at most 40 bytes, and only such as any terminal shows.
std::string excerpt(std::string_view line) {
  std::string text(line.substr(0, 40));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return line.size() > 40 ? text + "..." : text;
}

}  // namespace

Result<Vocabulary> Vocabulary::parse(std::string_view text, std::string_view file) {
  if (text.starts_with("version https://git-lfs")) {
    return fail(ErrorKind::model_files,
                "{}: this is a Git LFS pointer, not the file itself; fetch the file with git lfs "
                "pull or download it again",
                file);
  }
  Vocabulary vocabulary;
  vocabulary.arena_.reserve(text.size() / 2);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (auto status = vocabulary.read_line(line); !status) {
      return fail(ErrorKind::model_files, "{}: line {}: {}", file, number, status.error().message);
    }
  }
  SLUICE_TRY(vocabulary.index(file, true));
  return vocabulary;
}

Status Vocabulary::read_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) {
    return fail(ErrorKind::model_files, "expected base64, a space and a rank, found \"{}\"",
                excerpt(line));
  }
  const std::string_view number = line.substr(space + 1);
  std::uint32_t rank = 0;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (error != std::errc() || stop != number.data() + number.size()) {
    return fail(ErrorKind::model_files, "\"{}\" is not a rank", excerpt(number));
  }
  if (rank != size()) {
    return fail(ErrorKind::model_files,
                "rank {} where {} was expected (ranks run from 0, in order, without gaps)", rank,
                size());
  }
  const std::size_t before = arena_.size();
  if (!append_base64(line.substr(0, space), arena_)) {
    return fail(ErrorKind::model_files, "\"{}\" is not base64 of one byte or more",
                excerpt(line.substr(0, space)));
  }
  const std::size_t bytes = arena_.size() - before;
  if (bytes > kLongestToken) {
    return fail(ErrorKind::model_files, "a token of {} bytes; at most {} are accepted", bytes,
                kLongestToken);
  }
  longest_ = std::max(longest_, bytes);
  offsets_.push_back(static_cast<std::uint32_t>(arena_.size()));
  return {};
}

Status Vocabulary::append(std::string_view bytes, TokenKind kind) {
  if (bytes.size() > kLongestToken) {
    return fail(ErrorKind::model_files, "token {} has {} bytes; at most {} are accepted", size(),
                bytes.size(), kLongestToken);
  }
  if (kind == TokenKind::text) {
    longest_ = std::max(longest_, bytes.size());
  } else {
    kinds_.resize(size() + 1);  // those between are text
    kinds_[size()] = kind;
  }
  arena_.insert(arena_.end(), bytes.begin(), bytes.end());
  offsets_.push_back(static_cast<std::uint32_t>(arena_.size()));
  return {};
}

Status Vocabulary::index(std::string_view file, bool all_bytes) {
  ranks_ = size();
  kinds_.shrink_to_fit();
  arena_.shrink_to_fit();
  offsets_.shrink_to_fit();
  slots_.assign(std::bit_ceil(std::max<std::size_t>(ranks_ + ranks_ / 2, 2)), kFree);
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t id = 0; id < ranks_; ++id) {
    if (kind_of(static_cast<std::int32_t>(id)) != TokenKind::text) continue;
    const std::string_view bytes = bytes_of(static_cast<std::int32_t>(id));
    std::size_t slot = hash_of(bytes) & mask;
    for (std::size_t chain = 0; slots_[slot] != kFree; ++chain, slot = (slot + 1) & mask) {
      if (bytes_of(static_cast<std::int32_t>(slots_[slot])) == bytes) {
        return fail(ErrorKind::model_files, "{}: ranks {} and {} have the same bytes", file,
                    slots_[slot], id);
      }
      if (chain == kLongestChain) {
        return fail(ErrorKind::model_files,
                    "{}: too many tokens share a hash; this file was not made by a tokenizer",
                    file);
      }
    }
    slots_[slot] = id;
  }
  std::size_t missing = 0;
  int first = 0;
  for (int byte = 255; byte >= 0; --byte) {
    const char c = static_cast<char>(byte);
    const auto id = find({&c, 1});
    byte_tokens_[static_cast<std::size_t>(byte)] = id.value_or(-1);
    if (id) continue;
    ++missing;
    first = byte;
  }
  if (missing == 0 || !all_bytes) return {};
  return fail(ErrorKind::model_files,
              "{}: {} of the 256 single bytes have no rank, the first is 0x{:02X}; the file ({} "
              "ranks) is cut short or is not a byte-level vocabulary; download it again",
              file, missing, first, ranks_);
}

void Vocabulary::append_specials(std::span<const std::string> names) {
  std::size_t bytes = arena_.size();
  for (const std::string& name : names) bytes += name.size();
  arena_.reserve(bytes);
  offsets_.reserve(offsets_.size() + names.size());
  for (const std::string& name : names) {
    arena_.insert(arena_.end(), name.begin(), name.end());
    offsets_.push_back(static_cast<std::uint32_t>(arena_.size()));
  }
}

std::string_view Vocabulary::bytes_of(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size()) return {};
  const auto at = static_cast<std::size_t>(id);
  return {arena_.data() + offsets_[at], offsets_[at + 1] - offsets_[at]};
}

std::optional<std::int32_t> Vocabulary::find(std::string_view bytes) const {
  if (bytes.empty() || bytes.size() > longest_) return std::nullopt;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash_of(bytes) & mask; slots_[slot] != kFree; slot = (slot + 1) & mask) {
    const auto id = static_cast<std::int32_t>(slots_[slot]);
    if (bytes_of(id) == bytes) return id;
  }
  return std::nullopt;
}

std::uint64_t Vocabulary::memory_bytes() const {
  return arena_.capacity() + kinds_.capacity() +
         (offsets_.capacity() + slots_.capacity()) * sizeof(std::uint32_t);
}

}  // namespace sluice::text
