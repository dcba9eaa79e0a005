// The adapters of an engine: all known by name, as many in memory as there is room for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "base/result.h"
#include "engine/options.h"
#include "io/reader.h"
#include "model/adapter.h"

namespace sluice::engine {

/// What a budget has to know of adapters.
struct AdapterNeeds {
  std::size_t rank = 0;       ///< the largest; 0: there are none
  std::uint64_t largest = 0;  ///< bytes charged for the one that takes the most
  std::uint64_t all = 0;      ///< and for all together
};

struct AdapterStatistics {
  std::uint64_t loads = 0;      ///< each is one read of a whole adapter
  std::uint64_t evictions = 0;  ///< of one, for the sake of another
  std::uint64_t bytes_read = 0;
};

/// Loads adapters when they are wanted and drops those that were used longest ago. Not thread-safe.
class AdapterPool {
 public:
  /// Opens and checks all of them; nothing is read of their weights but, with `identify`, samples.
  /// Fails as model::open_adapter() does, for names that are no good with ErrorKind::usage.
  static Result<AdapterPool> open(const std::vector<AdapterSource>& sources,
                                  const model::Blueprint& model, io::Reader& reader, bool identify);

  AdapterNeeds needs() const;
  /// From now on adapters are loaded with `reader` into at most `room` bytes of the ledger. Both
  /// outlive the pool. The adapters were opened with the same reader.
  void load_with(io::Reader& reader, std::uint64_t room, MemoryLedger& ledger);

  std::size_t size() const { return entries_.size(); }
  /// Of adapter `number`, counted from 1.
  const std::string& name(std::uint32_t number) const { return entries_[number - 1].name; }
  std::uint64_t digest(std::uint32_t number) const { return entries_[number - 1].digest; }
  /// The name of the adapter that lies in the file; empty if none does.
  std::string name_in(io::FileId file) const;

  /// Adapter `number`, counted from 1, in memory for as long as the pointer lives. Fails as
  /// model::Adapter::load() does.
  Result<std::shared_ptr<const model::Adapter>> acquire(std::uint32_t number);

  const AdapterStatistics& statistics() const { return statistics_; }

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<const model::AdapterLayout> layout;
    std::uint64_t digest = 0;
    std::uint64_t bytes = 0;  // charged while it is loaded
    std::shared_ptr<const model::Adapter> loaded = nullptr;
    std::uint64_t turn = 0;  // larger: used later
  };
  Status make_room(std::uint64_t bytes);

  std::vector<Entry> entries_;
  io::Reader* reader_ = nullptr;
  MemoryLedger* ledger_ = nullptr;
  std::uint64_t room_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t turns_ = 0;
  AdapterStatistics statistics_;
};

}  // namespace sluice::engine
