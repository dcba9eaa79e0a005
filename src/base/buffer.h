// Large buffers, charged to the ledger, given back to the system when they go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/ledger.h"
#include "base/result.h"

namespace sluice {

/// Anonymous memory of its own mapping, page aligned (2 MiB aligned and in huge pages from 4 MiB
/// on), zero at the start. Charged to its tenant for as long as it lives.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer();

  /// Fails with ErrorKind::memory when the budget or the system has no room.
  static Result<Buffer> allocate(std::uint64_t bytes, Tenant tenant, MemoryLedger& ledger);

  /// What allocate(bytes) charges: `bytes` rounded up to whole pages.
  static std::uint64_t charge_for(std::uint64_t bytes);

  /// The largest buffer that charges no more than `bytes`.
  static std::uint64_t largest_charged(std::uint64_t bytes);

  std::span<std::byte> bytes() const { return {data_, size_}; }
  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

  /// The buffer as floats; its size must be a multiple of 4.
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(data_), static_cast<std::size_t>(size_ / sizeof(float))};
  }

  /// Gives whole pages in the middle back to the system, and their charge; their bytes are lost.
  /// `offset` and `bytes` are multiples of the page size. Not twice without take_back().
  void give_back(std::uint64_t offset, std::uint64_t bytes);
  /// Charges for them again; zero at the start. Fails with ErrorKind::memory without room.
  Status take_back(std::uint64_t offset, std::uint64_t bytes);

  /// Makes all pages present now, so that no first touch happens while tokens are computed.
  void touch();

 private:
  void swap(Buffer& other) noexcept;

  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;        // usable
  std::uint64_t charged_ = 0;     // in the ledger
  std::uint64_t given_back_ = 0;  // of it, not charged at present
  void* mapping_ = nullptr;       // may start before data_ for alignment
  std::uint64_t mapping_size_ = 0;
  Tenant tenant_ = Tenant::program;
  MemoryLedger* ledger_ = nullptr;
};

}  // namespace sluice
