#include "server/state_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "store/checksum.h"

namespace sluice::server {
namespace {

constexpr std::uint64_t kMagic = 0x31455441'54534c53;  // "SLSTATE1"
constexpr std::uint64_t kHashBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;  // of a part; sums cannot overflow

/// As it lies in the file, followed by its XXH3-64.
struct RawHead {
  std::uint64_t magic = kMagic;
  std::uint64_t model = 0;
  std::uint64_t key = 0;
  std::uint32_t kind = 0;
  std::uint32_t finish = 0;  // 0: none; else 1 + the reason's number
  std::uint64_t ids = 0;
  std::uint64_t prompt = 0;
  std::uint64_t logits = 0;
  std::uint64_t trail_bytes = 0;
  std::uint64_t state_bytes = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(RawHead) + kHashBytes == kStateHeadBytes);

constexpr std::uint32_t kReasons = 5;  // of engine::FinishReason

tl::unexpected<Error> damaged(std::string_view what) {
  return fail(ErrorKind::model_files, "it is damaged: {}", what);
}

template <class T>
std::span<std::byte> writable(std::vector<T>& items) {
  return std::as_writable_bytes(std::span(items));
}

/// Takes numbers off the front of bytes.
class Numbers {
 public:
  explicit Numbers(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  bool take(T& value) {
    if (bytes_.size() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return true;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto more = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), more.begin(), more.end());
}

std::optional<text::TokenLogProbability> decode_token(Numbers& numbers) {
  text::TokenLogProbability token;
  std::uint32_t count = 0;
  if (!numbers.take(token.id) || !numbers.take(token.value) || !numbers.take(count)) {
    return std::nullopt;
  }
  if (count > numbers.left() / 8) return std::nullopt;
  token.likeliest.resize(count);
  for (auto& [id, value] : token.likeliest) {
    numbers.take(id);
    numbers.take(value);
  }
  return token;
}

Result<std::vector<text::TokenLogProbability>> decode_trail(std::span<const std::byte> bytes) {
  std::vector<text::TokenLogProbability> trail;
  Numbers numbers(bytes);
  while (numbers.left() > 0) {
    auto token = decode_token(numbers);
    if (!token) return damaged("its log probabilities are cut off");
    trail.push_back(std::move(*token));
  }
  return trail;
}

}  // namespace

std::uint64_t StateHead::file_bytes() const {
  return kStateHeadBytes + ids * sizeof(std::int32_t) + logits * sizeof(float) + trail_bytes +
         state_bytes + kHashBytes;
}

std::array<std::byte, kStateHeadBytes> encode_head(const StateHead& head) {
  RawHead raw;
  raw.model = head.model;
  raw.key = head.key;
  raw.kind = static_cast<std::uint32_t>(head.kind);
  raw.finish = head.finish ? 1 + static_cast<std::uint32_t>(*head.finish) : 0;
  raw.ids = head.ids;
  raw.prompt = head.prompt;
  raw.logits = head.logits;
  raw.trail_bytes = head.trail_bytes;
  raw.state_bytes = head.state_bytes;
  std::array<std::byte, kStateHeadBytes> bytes{};
  std::memcpy(bytes.data(), &raw, sizeof(raw));
  const std::uint64_t hash = store::checksum_of(std::span(bytes).first<sizeof(RawHead)>());
  std::memcpy(bytes.data() + sizeof(raw), &hash, sizeof(hash));
  return bytes;
}

Result<StateHead> decode_head(std::span<const std::byte, kStateHeadBytes> bytes,
                              std::uint64_t file_bytes) {
  RawHead raw;
  std::uint64_t hash = 0;
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  std::memcpy(&hash, bytes.data() + sizeof(raw), sizeof(hash));
  if (raw.magic != kMagic) {
    return fail(ErrorKind::model_files, "it is of another version, or no saved state at all");
  }
  if (hash != store::checksum_of(bytes.first<sizeof(RawHead)>())) {
    return damaged("the checksum of its head is wrong");
  }
  const bool is_answer = raw.kind == static_cast<std::uint32_t>(StateKind::answer);
  if (!is_answer && raw.kind != static_cast<std::uint32_t>(StateKind::conversation)) {
    return damaged("its kind is unknown");
  }
  StateHead head = {static_cast<StateKind>(raw.kind),
                    raw.model,
                    raw.key,
                    raw.ids,
                    raw.prompt,
                    raw.logits,
                    raw.trail_bytes,
                    raw.state_bytes};
  if (raw.finish > kReasons || (raw.finish > 0 && !is_answer)) return damaged("its end is unknown");
  if (raw.finish > 0) head.finish = static_cast<engine::FinishReason>(raw.finish - 1);
  for (const std::uint64_t size : {raw.ids, raw.logits, raw.trail_bytes, raw.state_bytes}) {
    if (size > kMostBytes / 8) return damaged("its sizes are impossible");
  }
  const bool whole = is_answer ? raw.prompt >= 1 && raw.prompt <= raw.ids
                               : raw.prompt == raw.ids && raw.trail_bytes == 0;
  const bool has_sequence = raw.state_bytes > 0;
  if (!whole || has_sequence == head.finish.has_value() || raw.reserved != 0)
    return damaged("its sizes do not fit each other");
  if (head.file_bytes() != file_bytes) return damaged("it is cut off, or too long");
  return head;
}

Status check_head(const StateHead& head, const StateLimits& limits) {
  if (head.model != limits.model) return fail(ErrorKind::model_files, "it is of another model");
  // A trail has 20 of the likeliest at most.
  constexpr std::uint64_t kTrailBytes = 12 + 20 * 8;
  if (head.ids > limits.context + 1 || head.trail_bytes > head.ids * kTrailBytes ||
      (head.logits != 0 && head.logits != limits.vocabulary)) {
    return fail(ErrorKind::model_files, "it does not fit into this context");
  }
  return {};
}

std::vector<std::byte> encode_trail(std::span<const text::TokenLogProbability> trail) {
  std::vector<std::byte> bytes;
  for (const text::TokenLogProbability& token : trail) {
    append(bytes, token.id);
    append(bytes, token.value);
    append(bytes, static_cast<std::uint32_t>(token.likeliest.size()));
    for (const auto& [id, value] : token.likeliest) {
      append(bytes, id);
      append(bytes, value);
    }
  }
  return bytes;
}

Status write_state_file(const StateHead& head, std::span<const std::int32_t> ids,
                        std::span<const float> logits, std::span<const std::byte> trail,
                        FunctionRef<Status(ByteSink)> write_state, ByteSink sink) {
  SLUICE_CHECK(ids.size() == head.ids && logits.size() == head.logits &&
               trail.size() == head.trail_bytes);
  SLUICE_TRY(sink(encode_head(head)));
  store::Checksum checksum;
  const auto pass_on = [&](std::span<const std::byte> bytes) -> Status {
    checksum.add(bytes);
    return sink(bytes);
  };
  SLUICE_TRY(pass_on(std::as_bytes(ids)));
  SLUICE_TRY(pass_on(std::as_bytes(logits)));
  SLUICE_TRY(pass_on(trail));
  if (head.state_bytes > 0) SLUICE_TRY(write_state(pass_on));
  const std::uint64_t hash = checksum.take();
  return sink(std::as_bytes(std::span(&hash, 1)));
}

Result<std::optional<StateTexts>> read_state_file(
    const StateHead& head, ByteSource source, FunctionRef<bool(std::span<const std::int32_t>)> want,
    model::SequenceState& sequence) {
  store::Checksum checksum;
  const auto take = [&](std::span<std::byte> bytes) -> Status {
    SLUICE_TRY(source(bytes));
    checksum.add(bytes);
    return {};
  };
  StateTexts texts = {head, {}, {}, {}};
  texts.ids.resize(head.ids);
  SLUICE_TRY(take(writable(texts.ids)));
  if (!want(texts.ids)) return std::nullopt;
  texts.logits.resize(head.logits);
  SLUICE_TRY(take(writable(texts.logits)));
  std::vector<std::byte> trail(head.trail_bytes);
  SLUICE_TRY(take(trail));
  sequence.reset();
  if (head.state_bytes > 0) SLUICE_TRY(sequence.read(head.state_bytes, take));
  const auto all = [&]() -> Status {
    std::uint64_t hash = 0;
    SLUICE_TRY(source(std::as_writable_bytes(std::span(&hash, 1))));
    if (hash != checksum.take()) return damaged("its checksum is wrong");
    const std::uint64_t held = head.kind == StateKind::answer ? head.ids - 1 : head.ids;
    if (head.state_bytes > 0 && sequence.length() != held)
      return damaged("its positions are wrong");
    SLUICE_ASSIGN(texts.trail, decode_trail(trail));
    return {};
  }();
  if (!all) {
    sequence.reset();
    return tl::unexpected(all.error());
  }
  return texts;
}

std::uint64_t hash_of_ids(std::span<const std::int32_t> ids, std::uint64_t adapter) {
  if (adapter == 0) return store::checksum_of(std::as_bytes(ids));
  store::Checksum checksum;
  checksum.add(std::as_bytes(std::span(&adapter, 1)));
  checksum.add(std::as_bytes(ids));
  return checksum.take();
}

}  // namespace sluice::server
