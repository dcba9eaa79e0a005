// A saved sequence in a file. The first byte says whether its checksums are made right before: else
// nearly every input would end there.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "server/state_file.h"
#include "store/checksum.h"

namespace {

using namespace sluice;
using namespace sluice::server;

constexpr std::size_t kHashBytes = sizeof(std::uint64_t);

/// A fixed part and one that grows, as models have them.
class Sequence final : public model::SequenceState {
 public:
  Sequence() : SequenceState(64) {}
  void reset() override { length_ = 0; }

 private:
  void for_each_piece(std::size_t length,
                      FunctionRef<void(std::span<std::byte>)> visit) const override {
    visit(std::as_writable_bytes(std::span(fixed_)));
    visit(std::as_writable_bytes(std::span(grows_).first(length * 2)));
  }

  mutable std::array<float, 3> fixed_{};
  mutable std::array<float, 128> grows_{};
};

void seal(std::span<std::byte> bytes) {
  const auto body = bytes.first(bytes.size() - kHashBytes);
  const std::uint64_t hash = store::checksum_of(body);
  std::memcpy(bytes.data() + body.size(), &hash, sizeof(hash));
}

/// What was understood is written again as it was.
void write_again(const StateTexts& texts, const Sequence& sequence,
                 std::span<const std::byte> bytes) {
  std::vector<std::byte> again;
  const std::vector<std::byte> trail = encode_trail(texts.trail);
  const Status written = write_state_file(
      texts.head, texts.ids, texts.logits, trail,
      [&](ByteSink sink) { return sequence.write(sink); },
      [&](std::span<const std::byte> piece) -> Status {
        again.insert(again.end(), piece.begin(), piece.end());
        return {};
      });
  SLUICE_CHECK(written.has_value() && std::ranges::equal(again, bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 + kStateHeadBytes + kHashBytes) return 0;
  const auto* const from = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(from + 1, from + size);
  const auto start = std::span(bytes).first<kStateHeadBytes>();
  auto rest = std::span(bytes).subspan(kStateHeadBytes);
  if (data[0] != 0) {
    seal(start);
    seal(rest);
  }
  const auto head = decode_head(start, bytes.size());
  if (!head || !check_head(*head, {head->model, 64, 5})) return 0;
  SLUICE_CHECK(head->file_bytes() == bytes.size());
  Sequence sequence;
  const auto source = [&](std::span<std::byte> piece) -> Status {
    SLUICE_CHECK(piece.size() <= rest.size());
    std::copy_n(rest.begin(), piece.size(), piece.begin());
    rest = rest.subspan(piece.size());
    return {};
  };
  const auto texts = read_state_file(
      *head, source, [](std::span<const std::int32_t>) { return true; }, sequence);
  if (!texts) {
    SLUICE_CHECK(sequence.length() == 0);
    return 0;
  }
  SLUICE_CHECK(rest.empty() && (*texts)->ids.size() == head->ids);
  write_again(**texts, sequence, bytes);
  return 0;
}
