#include "base/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/size.h"

namespace sluice {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kHugeFrom = 2 * kHugePage;

}  // namespace

std::uint64_t Buffer::charge_for(std::uint64_t bytes) {
  return round_up(bytes, bytes >= kHugeFrom ? kHugePage : kPage);
}

std::uint64_t Buffer::largest_charged(std::uint64_t bytes) {
  // Between the largest small buffer and the smallest huge one the pages are small.
  const std::uint64_t page = bytes >= kHugeFrom ? kHugePage : kPage;
  return bytes / page * page;
}

Result<Buffer> Buffer::allocate(std::uint64_t bytes, Tenant tenant, MemoryLedger& ledger) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const bool huge = bytes >= kHugeFrom;
  const std::uint64_t charged = charge_for(bytes);
  SLUICE_TRY(ledger.charge(tenant, charged));
  const std::uint64_t mapping_size = charged + (huge ? kHugePage : 0);
  void* mapping = mmap(nullptr, mapping_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    const int error = errno;
    ledger.release(tenant, charged);
    return fail(ErrorKind::memory, "the system has no {} for {}: {}", format_size(bytes),
                name_of(tenant), std::strerror(error));
  }
  const auto start = reinterpret_cast<std::uintptr_t>(mapping);
  const std::uintptr_t aligned = huge ? round_up(start, kHugePage) : start;
#ifdef MADV_HUGEPAGE
  // Huge pages let one direct read keep the drive's queue full, and make first touch cheap. Small
  // buffers must not have them: a page of 2 MiB for a few KiB would break the ceiling.
  madvise(reinterpret_cast<void*>(aligned), charged, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  buffer.data_ = reinterpret_cast<std::byte*>(aligned);
  buffer.size_ = bytes;
  buffer.charged_ = charged;
  buffer.mapping_ = mapping;
  buffer.mapping_size_ = mapping_size;
  buffer.tenant_ = tenant;
  buffer.ledger_ = &ledger;
  return buffer;
}

Buffer::~Buffer() {
  if (mapping_ == nullptr) return;
  munmap(mapping_, mapping_size_);
  ledger_->release(tenant_, charged_ - given_back_);
}

void Buffer::give_back(std::uint64_t offset, std::uint64_t bytes) {
  SLUICE_CHECK(offset % kPage == 0 && bytes % kPage == 0 && offset + bytes <= charged_);
  madvise(data_ + offset, bytes, MADV_DONTNEED);
  ledger_->release(tenant_, bytes);
  given_back_ += bytes;
}

Status Buffer::take_back(std::uint64_t offset, std::uint64_t bytes) {
  SLUICE_CHECK(offset % kPage == 0 && bytes <= given_back_);
  SLUICE_TRY(ledger_->charge(tenant_, bytes));
  given_back_ -= bytes;
  return {};
}

void Buffer::touch() {
  for (std::uint64_t at = 0; at < size_; at += kPage) {
    static_cast<volatile std::byte*>(data_)[at] = std::byte{0};
  }
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(charged_, other.charged_);
  std::swap(given_back_, other.given_back_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_size_, other.mapping_size_);
  std::swap(tenant_, other.tenant_);
  std::swap(ledger_, other.ledger_);
}

}  // namespace sluice
