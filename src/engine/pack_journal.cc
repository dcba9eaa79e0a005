#include "engine/pack_journal.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/percent.h"
#include "store/checksum.h"

namespace sluice::engine {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "SLUICEPJ";
constexpr std::size_t kHashBytes = sizeof(std::uint64_t);

enum class RecordKind : std::uint64_t { written = 1, verified = 2, rewind = 3 };

struct RecordHead {
  RecordKind kind;
  std::uint64_t blocks;
  std::uint64_t count;  // of the checksums that follow; for a rewind the first unit
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  const std::size_t before = to.size();
  to.resize(before + bytes.size());
  if (!bytes.empty()) std::memcpy(to.data() + before, bytes.data(), bytes.size());
}

void append_hash(std::vector<std::byte>& to) {
  const std::uint64_t hash = store::checksum_of(to);
  append(to, std::as_bytes(std::span(&hash, 1)));
}

std::vector<std::byte> record(RecordKind kind, std::uint64_t blocks, std::uint64_t count,
                              std::span<const std::uint64_t> checksums) {
  const RecordHead head{kind, blocks, count};
  std::vector<std::byte> bytes;
  append(bytes, std::as_bytes(std::span(&head, 1)));
  append(bytes, std::as_bytes(checksums));
  append_hash(bytes);
  return bytes;
}

bool hash_holds(std::span<const std::byte> bytes) {
  std::uint64_t stored = 0;
  std::memcpy(&stored, bytes.data() + bytes.size() - kHashBytes, sizeof(stored));
  return store::checksum_of(bytes.first(bytes.size() - kHashBytes)) == stored;
}

bool is_plain(char letter) { return letter >= ' ' && letter <= '~' && letter != '%'; }

/// A path's bytes as text that JSON can hold, "%C3" for one that is not plain ASCII: a path is any
/// bytes, UTF-8 or not.
std::string escaped(std::string_view path) {
  std::string text;
  for (const char letter : path) {
    if (is_plain(letter)) {
      text += letter;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
  }
  return text;
}

std::vector<std::string> escaped(const std::vector<std::string>& paths) {
  std::vector<std::string> texts;
  texts.reserve(paths.size());
  for (const std::string& path : paths) texts.push_back(escaped(path));
  return texts;
}

/// Makes the paths of a plan what they were; false when one is no escaped path.
bool unescape(PackPlan& plan) {
  std::vector<std::string*> all = {&plan.model};
  for (std::string& folder : plan.folders) all.push_back(&folder);
  for (std::string& part : plan.parts) all.push_back(&part);
  for (std::string* const text : all) {
    auto path = percent_decoded(*text);
    if (!path) return false;
    *text = *std::move(path);
  }
  return true;
}

std::optional<PackPlan> plan_of(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  PackPlan plan;
  bool is_escaped = false;
  try {
    is_escaped = json.value("escaped", false);  // earlier journals have the paths as they are
    json.at("model").get_to(plan.model);
    json.at("folders").get_to(plan.folders);
    json.at("parts").get_to(plan.parts);
    json.at("deal").get_to(plan.deal);
    json.at("chunk_bytes").get_to(plan.chunk_bytes);
    json.at("identity").get_to(plan.identity);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  if (is_escaped && !unescape(plan)) return std::nullopt;
  return plan;
}

/// Takes the plan off the front of `bytes`.
std::optional<PackPlan> take_plan(std::span<const std::byte>& bytes) {
  constexpr std::size_t kStart = kMagic.size() + sizeof(std::uint64_t);
  if (bytes.size() < kStart || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return std::nullopt;
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data() + kMagic.size(), sizeof(length));
  if (length > bytes.size() - kStart || bytes.size() - kStart - length < kHashBytes) {
    return std::nullopt;
  }
  const auto whole = bytes.first(kStart + static_cast<std::size_t>(length) + kHashBytes);
  if (!hash_holds(whole)) return std::nullopt;
  bytes = bytes.subspan(whole.size());
  return plan_of(
      {reinterpret_cast<const char*>(whole.data()) + kStart, static_cast<std::size_t>(length)});
}

/// Takes one record off the front of `bytes`; false when there is no whole one.
bool take_record(std::span<const std::byte>& bytes, PackJournal& journal) {
  RecordHead head{};
  if (bytes.size() < sizeof(head) + kHashBytes) return false;
  std::memcpy(&head, bytes.data(), sizeof(head));
  const std::uint64_t count = head.kind == RecordKind::written ? head.count : 0;
  if (count > (bytes.size() - sizeof(head) - kHashBytes) / sizeof(std::uint64_t)) return false;
  const std::size_t data = static_cast<std::size_t>(count) * sizeof(std::uint64_t);
  const auto whole = bytes.first(sizeof(head) + data + kHashBytes);
  if (!hash_holds(whole)) return false;
  switch (head.kind) {
    case RecordKind::written: {
      const std::size_t before = journal.checksums.size();
      journal.checksums.resize(before + static_cast<std::size_t>(count));
      if (data > 0) {
        std::memcpy(journal.checksums.data() + before, whole.data() + sizeof(head), data);
      }
      journal.blocks_written = head.blocks;
      break;
    }
    case RecordKind::verified:
      journal.blocks_verified = head.blocks;
      break;
    case RecordKind::rewind:
      if (head.count > journal.checksums.size()) return false;
      journal.checksums.resize(static_cast<std::size_t>(head.count));
      journal.blocks_written = head.blocks;
      journal.blocks_verified = std::min(journal.blocks_verified, head.blocks);
      break;
    default:
      return false;
  }
  bytes = bytes.subspan(whole.size());
  return true;
}

}  // namespace

std::vector<std::byte> encode_plan(const PackPlan& plan) {
  const Json json = {{"escaped", true},
                     {"model", escaped(plan.model)},
                     {"folders", escaped(plan.folders)},
                     {"parts", escaped(plan.parts)},
                     {"deal", plan.deal},
                     {"chunk_bytes", plan.chunk_bytes},
                     {"identity", plan.identity}};
  const std::string text = json.dump();
  const std::uint64_t length = text.size();
  std::vector<std::byte> bytes;
  append(bytes, bytes_of(kMagic));
  append(bytes, std::as_bytes(std::span(&length, 1)));
  append(bytes, bytes_of(text));
  append_hash(bytes);
  return bytes;
}

std::vector<std::byte> record_written(std::uint64_t blocks,
                                      std::span<const std::uint64_t> checksums) {
  return record(RecordKind::written, blocks, checksums.size(), checksums);
}

std::vector<std::byte> record_verified(std::uint64_t blocks) {
  return record(RecordKind::verified, blocks, 0, {});
}

std::vector<std::byte> record_rewind(std::uint64_t blocks, std::uint64_t unit) {
  return record(RecordKind::rewind, blocks, unit, {});
}

Result<PackJournal> decode_journal(std::span<const std::byte> bytes,
                                   const std::filesystem::path& path) {
  PackJournal journal;
  std::span<const std::byte> rest = bytes;
  auto plan = take_plan(rest);
  if (!plan) {
    return fail(ErrorKind::model_files,
                "{}: the journal of an unfinished pack cannot be read; remove the pack's files and "
                "start again",
                path.string());
  }
  journal.plan = std::move(*plan);
  while (take_record(rest, journal)) {
  }
  journal.valid_bytes = bytes.size() - rest.size();
  return journal;
}

}  // namespace sluice::engine
