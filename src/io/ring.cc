#include "io/ring.h"

#include <liburing.h>
#include <poll.h>

#include <cerrno>

#include "base/check.h"

namespace sluice::io {
namespace {

class KernelRing final : public Ring {
 public:
  KernelRing() = default;
  KernelRing(const KernelRing&) = delete;
  KernelRing& operator=(const KernelRing&) = delete;
  ~KernelRing() override {
    if (made_) io_uring_queue_exit(&ring_);
  }

  int make(unsigned entries) {
    const int made = io_uring_queue_init(entries, &ring_, IORING_SETUP_CLAMP);
    if (made < 0) return -made;
    made_ = true;
    // Kernels before 5.6 have a ring and cannot read with it into plain memory.
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
    const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    if (probe != nullptr) io_uring_free_probe(probe);
    return reads ? 0 : EOPNOTSUPP;
  }

  void read(int descriptor, std::byte* to, std::size_t length, std::uint64_t offset,
            std::uint64_t tag, bool patient) override {
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_read(entry, descriptor, to, static_cast<unsigned>(length), offset);
    if (patient) io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
    io_uring_sqe_set_data64(entry, tag);
  }

  void poll(int descriptor, std::uint64_t tag) override {
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_poll_add(entry, descriptor, POLLIN);
    io_uring_sqe_set_data64(entry, tag);
  }

  int submit_and_wait() override {
    const int taken = io_uring_submit_and_wait(&ring_, 1);
    return taken < 0 ? taken : 0;
  }

  bool next(RingResult& result) override {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(&ring_, &entry) != 0) return false;
    result = {.tag = io_uring_cqe_get_data64(entry), .result = entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return true;
  }

  std::uint64_t memory_bytes() const override { return ring_.sq.ring_sz + ring_.cq.ring_sz; }

 private:
  io_uring_sqe* next_entry() {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    SLUICE_CHECK(entry != nullptr);  // more operations than the ring was made for
    return entry;
  }

  io_uring ring_{};
  bool made_ = false;
};

}  // namespace

std::unique_ptr<Ring> make_kernel_ring(unsigned entries, int& error) {
  auto ring = std::make_unique<KernelRing>();
  error = ring->make(entries);
  if (error != 0) return nullptr;
  return ring;
}

}  // namespace sluice::io
