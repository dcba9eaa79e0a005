#include "engine/adapter_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/size.h"
#include "engine/model_digest.h"

namespace sluice::engine {
namespace {

Status check_name(const AdapterSource& source, const std::vector<AdapterSource>& all) {
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7F; };
  if (source.name.empty() || !std::ranges::all_of(source.name, is_plain)) {
    return fail(ErrorKind::usage,
                "the adapter {}: its name must be without blanks and not be empty",
                source.folder.string());
  }
  if (std::ranges::count(all, source.name, &AdapterSource::name) > 1) {
    return fail(ErrorKind::usage, "two adapters are called {}", source.name);
  }
  return {};
}

}  // namespace

Result<AdapterPool> AdapterPool::open(const std::vector<AdapterSource>& sources,
                                      const model::Blueprint& model, io::Reader& reader,
                                      bool identify) {
  AdapterPool pool;
  for (const AdapterSource& source : sources) {
    SLUICE_TRY(check_name(source, sources));
    Entry entry;
    entry.name = source.name;
    SLUICE_ASSIGN(model::AdapterLayout layout, model::open_adapter(source.folder, model, reader));
    entry.bytes = model::Adapter::charge_for(layout, reader);
    entry.layout = std::make_unique<const model::AdapterLayout>(std::move(layout));
    if (identify) {
      SLUICE_ASSIGN(entry.digest, adapter_digest(*entry.layout, reader));
    }
    pool.entries_.push_back(std::move(entry));
  }
  return pool;
}

AdapterNeeds AdapterPool::needs() const {
  AdapterNeeds needs;
  for (const Entry& entry : entries_) {
    needs.rank = std::max(needs.rank, entry.layout->rank);
    needs.largest = std::max(needs.largest, entry.bytes);
    needs.all += entry.bytes;
  }
  return needs;
}

void AdapterPool::load_with(io::Reader& reader, std::uint64_t room, MemoryLedger& ledger) {
  reader_ = &reader;
  room_ = room;
  ledger_ = &ledger;
}

std::string AdapterPool::name_in(io::FileId file) const {
  for (const Entry& entry : entries_) {
    if (entry.layout->extent.file == file) return entry.name;
  }
  return {};
}

Result<std::shared_ptr<const model::Adapter>> AdapterPool::acquire(std::uint32_t number) {
  SLUICE_CHECK(number >= 1 && number <= entries_.size() && reader_ != nullptr);
  Entry& entry = entries_[number - 1];
  entry.turn = ++turns_;
  if (entry.loaded) return entry.loaded;
  SLUICE_TRY(make_room(entry.bytes));
  SLUICE_ASSIGN(model::Adapter adapter, model::Adapter::load(*entry.layout, *reader_, *ledger_));
  entry.loaded = std::make_shared<const model::Adapter>(std::move(adapter));
  used_ += entry.bytes;
  ++statistics_.loads;
  statistics_.bytes_read += entry.layout->extent.length;
  return entry.loaded;
}

/// Drops what was used longest ago, but nothing that is in use.
Status AdapterPool::make_room(std::uint64_t bytes) {
  while (used_ + bytes > room_) {
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      if (!entry.loaded || entry.loaded.use_count() > 1) continue;
      if (oldest == nullptr || entry.turn < oldest->turn) oldest = &entry;
    }
    if (oldest == nullptr) {
      return fail(ErrorKind::memory,
                  "an adapter needs {}, but of the {} for adapters (--lora-ram) {} are in use",
                  format_size(bytes), format_size(room_), format_size(used_));
    }
    oldest->loaded.reset();
    used_ -= oldest->bytes;
    ++statistics_.evictions;
  }
  return {};
}

}  // namespace sluice::engine
