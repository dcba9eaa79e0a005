// A sequence in a file, so that it outlives the process. docs/formats.md has the layout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/generate.h"
#include "model/network.h"
#include "text/log_probabilities.h"

namespace sluice::server {

enum class StateKind : std::uint32_t {
  conversation = 1,  ///< `ids`, all of them held by the sequence
  answer = 2,        ///< a prompt and the beginning of its answer, but for the last id held
};

/// What a file begins with.
struct StateHead {
  StateKind kind = StateKind::conversation;
  std::uint64_t model = 0;  ///< digest of the model that the sequence is of
  std::uint64_t key = 0;    ///< of a conversation hash_of_ids(), of an answer its request's
  std::uint64_t ids = 0;
  std::uint64_t prompt = 0;       ///< of the ids, how many come before an answer's
  std::uint64_t logits = 0;       ///< of the last position: as many as the vocabulary, or none
  std::uint64_t trail_bytes = 0;  ///< the answer's log probabilities
  std::uint64_t state_bytes = 0;  ///< the sequence; none of an answer that has ended
  std::optional<engine::FinishReason> finish = {};  ///< of an answer that has ended

  std::uint64_t file_bytes() const;
};

inline constexpr std::size_t kStateHeadBytes = 88;

/// What is good for a model as it is served.
struct StateLimits {
  std::uint64_t model = 0;
  std::size_t context = 0;
  std::size_t vocabulary = 0;
};

/// A file's contents beside the sequence.
struct StateTexts {
  StateHead head;
  std::vector<std::int32_t> ids;
  std::vector<float> logits;
  std::vector<text::TokenLogProbability> trail;
};

std::array<std::byte, kStateHeadBytes> encode_head(const StateHead& head);
/// Fails with ErrorKind::model_files if the head is damaged or does not fit the size of the file.
/// Of which model it is, is not looked at.
Result<StateHead> decode_head(std::span<const std::byte, kStateHeadBytes> bytes,
                              std::uint64_t file_bytes);
/// Fails with ErrorKind::model_files if the model cannot go on with such a state.
Status check_head(const StateHead& head, const StateLimits& limits);

std::vector<std::byte> encode_trail(std::span<const text::TokenLogProbability> trail);

/// Writes a file: `sink` takes all bytes in order, `write_state` hands on the sequence's.
using ByteSink = FunctionRef<Status(std::span<const std::byte>)>;
Status write_state_file(const StateHead& head, std::span<const std::int32_t> ids,
                        std::span<const float> logits, std::span<const std::byte> trail,
                        FunctionRef<Status(ByteSink)> write_state, ByteSink sink);

/// Reads what follows a head that was checked; `source` fills in bytes in order. `want` sees the
/// ids before the sequence is touched, and false ends it with nothing. After an error the sequence
/// is empty.
using ByteSource = FunctionRef<Status(std::span<std::byte>)>;
Result<std::optional<StateTexts>> read_state_file(
    const StateHead& head, ByteSource source, FunctionRef<bool(std::span<const std::int32_t>)> want,
    model::SequenceState& sequence);

/// XXH3-64 of a text's ids. `adapter`: digest of the adapter that it is computed with, which comes
/// before them; 0: none.
std::uint64_t hash_of_ids(std::span<const std::int32_t> ids, std::uint64_t adapter);

}  // namespace sluice::server
