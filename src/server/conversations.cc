#include "server/conversations.h"

#include <algorithm>
#include <utility>

#include "store/checksum.h"

namespace sluice::server {
namespace {

StateHead answer_head(std::uint64_t key, std::size_t prompt) {
  StateHead head;
  head.kind = StateKind::answer;
  head.key = key;
  head.prompt = prompt;
  return head;
}

std::uint64_t both(std::uint64_t one, std::uint64_t other) {
  const std::uint64_t numbers[] = {one, other};
  return store::checksum_of(std::as_bytes(std::span(numbers)));
}

}  // namespace

std::uint64_t answer_key(std::uint64_t request, std::size_t choice) {
  return both(request, choice);
}

std::uint64_t Conversations::memory_bytes(std::size_t context, std::size_t vocabulary) {
  constexpr std::uint64_t kIdsAtOnce = 8;  // the writer's queue, and what is read
  const std::uint64_t ids = kIdsAtOnce * context * sizeof(std::int32_t);
  return StateWriter::memory_bytes() + DiskStates::memory_bytes() + ids +
         vocabulary * sizeof(float);
}

Result<std::unique_ptr<Conversations>> Conversations::open(engine::Engine& engine,
                                                           const ConversationOptions& options) {
  std::unique_ptr<Conversations> all(new Conversations(options, engine));
  SLUICE_ASSIGN(all->sequence_, engine.new_sequence());
  if (options.folder.empty() || options.disk == 0) return all;
  const StateLimits limits = {both(engine.digest(), options.tokenizer_digest),
                              all->sequence_->context(), options.vocabulary};
  SLUICE_ASSIGN(all->disk_, DiskStates::open(options.folder, options.disk, limits));
  SLUICE_ASSIGN(all->writer_, StateWriter::start(*all->disk_, options.write_rate));
  return all;
}

void Conversations::use_adapter(std::uint32_t adapter) {
  if (sequence_->adapter() == adapter) return;
  begin_anew();
  sequence_->adapt(adapter);
}

/// For keys of what is on disk, where an adapter's number says nothing.
std::uint64_t Conversations::adapter_digest() const {
  return engine_.adapter_digest(sequence_->adapter());
}

Result<std::span<const float>> Conversations::recall(std::span<const std::int32_t> prompt) {
  const auto held = [&] {
    return held_.size() < prompt.size() && begin_with(prompt, held_) ? held_.size() : 0;
  };
  StateStore::Shared saved = memory_.find(prompt, sequence_->adapter());
  const std::size_t in_memory = saved ? saved->ids.size() : 0;
  logits_.clear();
  part_since_ = Clock::now();
  if (!recall_from_disk(prompt, std::max(held(), in_memory)) &&
      (held() == 0 || held() < in_memory)) {
    begin_anew();
    // What lay in the sequence may be the best there is by now.
    if (auto again = memory_.find(prompt, sequence_->adapter());
        again && again->ids.size() > in_memory)
      saved = again;
    if (saved) {
      SLUICE_TRY(sequence_->load(saved->state()));
      held_ = saved->ids;
      logits_ = saved->logits;
    }
  }
  return held_.size() == prompt.size() ? std::span<const float>(logits_) : std::span<const float>();
}

/// True if the sequence now holds more than that many ids of the prompt.
bool Conversations::recall_from_disk(std::span<const std::int32_t> prompt,
                                     std::size_t longer_than) {
  std::string tried;
  while (disk_) {
    const auto found = disk_->find(prompt, adapter_digest(), longer_than);
    if (!found || found->name == tried) return false;
    tried = found->name;
    put_aside();
    held_.clear();
    auto texts = disk_->load(
        *found, [&](std::span<const std::int32_t> ids) { return begin_with(prompt, ids); },
        *sequence_);
    if (!texts) continue;  // it was damaged, and is gone; there may be a shorter one
    held_ = std::move(texts->ids);
    logits_ = std::move(texts->logits);
    return true;
  }
  return false;
}

void Conversations::begin_anew() {
  put_aside();
  held_.clear();
  sequence_->reset();
}

void Conversations::drop_held() {
  is_due_ = false;
  held_.clear();
  sequence_->reset();
}

/// Another conversation takes the sequence: this one may go on later.
void Conversations::put_aside() {
  if (held_.empty()) return;
  if (is_due_) {
    keep({});
    is_due_ = false;
    return;
  }
  memory_.save(*sequence_, held_, {});
}

StateWriter::Item Conversations::item_of(std::span<const std::int32_t> ids,
                                         StateStore::Shared saved) const {
  StateWriter::Item item;
  item.head.key = hash_of_ids(ids, adapter_digest());
  item.head.prompt = ids.size();
  item.ids.assign(ids.begin(), ids.end());
  item.saved = std::move(saved);
  item.adapter = adapter_digest();
  return item;
}

void Conversations::keep(std::span<const float> logits) {
  if (held_.empty()) return;
  if (!writer_) {
    if (!logits.empty()) memory_.save(*sequence_, held_, logits);
    return;
  }
  is_due_ = false;
  StateStore::Shared saved = memory_.save(*sequence_, held_, logits);
  if (logits.empty() && disk_->has_conversation(hash_of_ids(held_, adapter_digest()))) return;
  if (!saved) {
    writer_->flush();  // it may hold the room that is missing
    saved = memory_.save(*sequence_, held_, logits);
  }
  if (saved) return writer_->submit_later(item_of(held_, std::move(saved)));
  if (!writer_->is_free()) {
    is_due_ = true;
    return;
  }
  writer_->write_now(item_of(held_, nullptr), *sequence_, logits);
}

void Conversations::keep_part(std::span<const std::int32_t> prompt, std::size_t count) {
  if (Clock::now() - part_since_ < part_interval_) return;
  StateStore::Shared saved = memory_.save_part(*sequence_, prompt, count);
  if (writer_ && writer_->is_free()) {
    const bool has_copy = saved != nullptr;
    StateWriter::Item item = item_of(prompt.first(count), std::move(saved));
    item.is_part = true;
    if (has_copy) {
      writer_->submit(std::move(item));
    } else {
      writer_->write_now(std::move(item), *sequence_, {});
    }
  }
  part_since_ = Clock::now();
}

std::optional<KnownAnswer> Conversations::recall_answer(std::uint64_t key,
                                                        std::span<const std::int32_t> prompt) {
  if (!disk_) return std::nullopt;
  const auto found = disk_->find_answer(key);
  if (!found) return std::nullopt;
  put_aside();
  held_.clear();
  auto texts = disk_->load(
      *found,
      [&](std::span<const std::int32_t> ids) {
        return ids.size() > prompt.size() && begin_with(ids, prompt);
      },
      *sequence_);
  if (!texts) {
    sequence_->reset();  // what is wanted of it is not in it
    return std::nullopt;
  }
  const auto begin = texts->ids.begin() + static_cast<std::ptrdiff_t>(prompt.size());
  if (!texts->head.finish) held_.assign(prompt.begin(), prompt.end());
  return KnownAnswer{{begin, texts->ids.end()}, std::move(texts->trail), texts->head.finish};
}

bool Conversations::checkpoint(std::uint64_t key, std::size_t prompt,
                               std::span<const text::TokenLogProbability> trail) {
  if (!writer_ || !writer_->is_free()) return false;
  StateWriter::Item item = {answer_head(key, prompt), held_, encode_trail(trail)};
  item.saved = memory_.copy(*sequence_, held_, {});
  if (item.saved) {
    writer_->submit(std::move(item));
  } else {
    writer_->write_now(std::move(item), *sequence_, {});
  }
  return true;
}

void Conversations::checkpoint_end(std::uint64_t key, std::size_t prompt,
                                   std::vector<std::int32_t> ids,
                                   std::span<const text::TokenLogProbability> trail,
                                   engine::FinishReason reason) {
  if (!writer_) return;
  StateHead head = answer_head(key, prompt);
  head.finish = reason;
  writer_->submit({head, std::move(ids), encode_trail(trail)});
}

void Conversations::forget(std::uint64_t key) {
  if (writer_) writer_->remove_answer(key);
}

std::size_t Conversations::progress(std::uint64_t request) const {
  std::size_t ids = 0;
  for (std::size_t choice = 0; disk_; ++choice) {
    const auto found = disk_->find_answer(answer_key(request, choice));
    if (!found) break;
    ids += found->ids;
  }
  return ids;
}

}  // namespace sluice::server
