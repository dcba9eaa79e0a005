#include "base/ledger.h"

#include <algorithm>

#include "base/check.h"
#include "base/size.h"

namespace sluice {

std::string_view name_of(Tenant tenant) {
  switch (tenant) {
    case Tenant::program:
      return "program";
    case Tenant::thread_stacks:
      return "thread stacks";
    case Tenant::vectors:
      return "vectors";
    case Tenant::resident:
      return "resident weights";
    case Tenant::ring:
      return "trunk ring";
    case Tenant::experts:
      return "expert slots";
    case Tenant::adapters:
      return "adapters";
    case Tenant::state:
      return "state and KV cache";
    case Tenant::activations:
      return "activations";
  }
  return "?";
}

Status MemoryLedger::charge(Tenant tenant, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes > budget_ - total_) {
    return fail(ErrorKind::memory,
                "{} need {}, but of the memory budget of {} only {} are left; raise --ram",
                name_of(tenant), format_size(bytes), format_size(budget_),
                format_size(budget_ - total_));
  }
  total_ += bytes;
  auto& held = by_tenant_[static_cast<std::size_t>(tenant)];
  auto& most = most_[static_cast<std::size_t>(tenant)];
  held += bytes;
  most = std::max(most, held);
  return {};
}

void MemoryLedger::release(Tenant tenant, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  auto& held = by_tenant_[static_cast<std::size_t>(tenant)];
  SLUICE_CHECK(held >= bytes);
  held -= bytes;
  total_ -= bytes;
}

std::uint64_t MemoryLedger::charged() const {
  const std::scoped_lock lock(mutex_);
  return total_;
}

std::uint64_t MemoryLedger::charged(Tenant tenant) const {
  const std::scoped_lock lock(mutex_);
  return by_tenant_[static_cast<std::size_t>(tenant)];
}

std::uint64_t MemoryLedger::most_charged(Tenant tenant) const {
  const std::scoped_lock lock(mutex_);
  return most_[static_cast<std::size_t>(tenant)];
}

std::uint64_t MemoryLedger::available() const {
  const std::scoped_lock lock(mutex_);
  return budget_ - total_;
}

}  // namespace sluice
