// The sequence that the engine works on, and those of other requests, in memory and on disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "server/disk_states.h"
#include "server/state_store.h"
#include "server/state_writer.h"

namespace sluice::server {

struct ConversationOptions {
  std::uint64_t memory = 0;           ///< bytes for copies of sequences
  std::filesystem::path folder = {};  ///< for those on disk; empty: there are none
  std::uint64_t disk = 0;             ///< bytes for them
  std::size_t vocabulary = 0;         ///< of the model
  std::uint64_t tokenizer_digest = 0;
  /// Bytes per second, on average, that may be written there (WriteBudget); none: there is no
  /// bound.
  std::optional<std::uint64_t> write_rate = {};
  /// Of a prompt that is being read, a copy is kept at the end of the first chunk after so long.
  std::chrono::milliseconds part_interval = std::chrono::seconds(10);
};

/// An answer that was begun before.
struct KnownAnswer {
  std::vector<std::int32_t> ids;  ///< at least one
  std::vector<text::TokenLogProbability> trail;
  std::optional<engine::FinishReason> finish;  ///< it had ended; the sequence holds nothing of it
};

/// Of one answer among those of a request.
std::uint64_t answer_key(std::uint64_t request, std::size_t choice);

/// Used by the engine's thread alone, but for forget(), progress() and what says how much there is.
class Conversations {
 public:
  /// Fails as Engine::new_sequence() and DiskStates::open() do. The engine must outlive them.
  static Result<std::unique_ptr<Conversations>> open(engine::Engine& engine,
                                                     const ConversationOptions& options);

  /// Memory beside that of the copies, in bytes, if there is a disk.
  static std::uint64_t memory_bytes(std::size_t context, std::size_t vocabulary);

  /// What follows is computed with this adapter (Engine::new_sequence()). Nothing that was saved
  /// with another is ever found.
  void use_adapter(std::uint32_t adapter);

  model::SequenceState& sequence() { return *sequence_; }
  /// The ids of the sequence. Whoever feeds it says so here.
  std::vector<std::int32_t>& held() { return held_; }

  /// Makes the sequence hold the longest part of the prompt that is known: held() then says which.
  /// The logits of its last position if that is all of it, valid until the next call.
  Result<std::span<const float>> recall(std::span<const std::int32_t> prompt);
  /// Puts aside what the sequence holds: it is empty then.
  void begin_anew();
  /// Empties the sequence, of which nobody knows what it holds.
  void drop_held();
  /// What the sequence holds may be asked for again, also after a crash: it is brought to the disk,
  /// once nothing is owed for what was written there before. `logits`: of its last position, or
  /// empty.
  void keep(std::span<const float> logits);
  /// The sequence holds `count` ids of the prompt that recall() was asked for: if enough time has
  /// passed since then, or since the last time, a copy is kept (StateStore::save_part()); on disk,
  /// too, if nothing is owed.
  void keep_part(std::span<const std::int32_t> prompt, std::size_t count);

  /// The beginning of the answer under `key`, if it is known; unless it had ended, the sequence
  /// then holds the prompt and all of it but the last id.
  std::optional<KnownAnswer> recall_answer(std::uint64_t key, std::span<const std::int32_t> prompt);
  /// For after a crash: held() is `prompt` ids and the answer so far, of which the last is not in
  /// the sequence yet. False, and nothing is done, if the drive is still busy with what came
  /// before, or something is owed for it.
  bool checkpoint(std::uint64_t key, std::size_t prompt,
                  std::span<const text::TokenLogProbability> trail);
  /// The same of an answer that has ended, for the others of its request.
  void checkpoint_end(std::uint64_t key, std::size_t prompt, std::vector<std::int32_t> ids,
                      std::span<const text::TokenLogProbability> trail,
                      engine::FinishReason reason);
  /// Nobody needs the answer's checkpoints any more.
  void forget(std::uint64_t key);
  /// How much of a request's answers is on disk, in ids: those of each choice in turn, up to the
  /// first of which there is nothing.
  std::size_t progress(std::uint64_t request) const;

  /// Waits until all that is to be on disk is there.
  void flush() {
    if (writer_) writer_->flush();
  }
  bool has_disk() const { return writer_ != nullptr; }
  std::size_t count() const { return memory_.count(); }
  std::uint64_t bytes() const { return memory_.bytes(); }
  std::size_t disk_count() const { return disk_ ? disk_->count() : 0; }
  std::uint64_t disk_written_bytes() const { return disk_ ? disk_->written_bytes() : 0; }
  std::uint64_t disk_bytes() const { return disk_ ? disk_->bytes() : 0; }

 private:
  Conversations(const ConversationOptions& options, engine::Engine& engine)
      : engine_(engine),
        part_interval_(options.part_interval),
        memory_(options.memory, engine.ledger()) {}
  void put_aside();
  StateWriter::Item item_of(std::span<const std::int32_t> ids, StateStore::Shared saved) const;
  bool recall_from_disk(std::span<const std::int32_t> prompt, std::size_t longer_than);

  std::uint64_t adapter_digest() const;

  engine::Engine& engine_;
  const std::chrono::milliseconds part_interval_;
  Clock::time_point part_since_;  // recall(), or the last part
  std::unique_ptr<model::SequenceState> sequence_;
  std::vector<std::int32_t> held_;
  bool is_due_ = false;  // held_ should be on disk, and there was no room to let it wait for that
  StateStore memory_;
  std::vector<float> logits_;  // of what recall() found
  std::unique_ptr<DiskStates> disk_;
  std::unique_ptr<StateWriter> writer_;
};

}  // namespace sluice::server
