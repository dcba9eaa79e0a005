// The memory ledger: everything that the process holds is charged here, by tenant.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

/// Who holds memory. One line each in the table that --stats prints.
enum class Tenant : std::uint8_t {
  program,        ///< code, libraries, heap at the time the budget was drawn up, slack, tile tables
  thread_stacks,  ///< stacks of the compute and reader threads
  vectors,        ///< norms, biases, convolutions: small tensors, resident as float32
  resident,       ///< tiles of the trunk, embedding and head that stay
  ring,           ///< tiles of the trunk on their way through
  experts,        ///< slots of routed experts
  adapters,       ///< LoRA adapters that are loaded
  state,          ///< recurrent state and KV cache of the sequences
  activations,    ///< buffers of a pass
};
inline constexpr std::size_t kTenants = 9;
std::string_view name_of(Tenant tenant);

/// Counts bytes against the budget. Thread-safe.
class MemoryLedger {
 public:
  /// `budget` bytes bound the sum of all charges.
  explicit MemoryLedger(std::uint64_t budget) : budget_(budget) {}
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  /// Charges `bytes`, or fails with ErrorKind::memory, naming what was asked and what is left.
  Status charge(Tenant tenant, std::uint64_t bytes);
  void release(Tenant tenant, std::uint64_t bytes);

  std::uint64_t budget() const { return budget_; }
  std::uint64_t charged() const;
  std::uint64_t charged(Tenant tenant) const;
  /// The most that the tenant held at once so far.
  std::uint64_t most_charged(Tenant tenant) const;
  /// Bytes that can still be charged.
  std::uint64_t available() const;

 private:
  const std::uint64_t budget_;
  mutable std::mutex mutex_;
  std::uint64_t total_ = 0;
  std::array<std::uint64_t, kTenants> by_tenant_{};
  std::array<std::uint64_t, kTenants> most_{};
};

}  // namespace sluice
