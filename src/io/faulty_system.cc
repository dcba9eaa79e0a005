#include "io/faulty_system.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace sluice::io {
namespace {

bool is_of_reads(SystemFault::Kind kind) {
  return kind != SystemFault::Kind::refuse_ring && kind != SystemFault::Kind::refuse_copy &&
         kind != SystemFault::Kind::busy_ring;
}

}  // namespace

FaultySystem::FaultySystem(std::vector<SystemFault> faults, std::uint64_t seed)
    : faults_(std::move(faults)), random_(seed), calls_(faults_.size()) {}

int FaultySystem::open(const char* path, bool direct) const {
  const int descriptor = System::open(path, direct);
  if (descriptor < 0) return descriptor;
  FileFacts facts;
  System::describe(descriptor, facts);
  const std::scoped_lock lock(mutex_);
  opened_[descriptor] = {.path = path, .direct = direct, .size = facts.size};
  return descriptor;
}

void FaultySystem::close(int descriptor) const {
  {
    const std::scoped_lock lock(mutex_);
    opened_.erase(descriptor);
  }
  System::close(descriptor);
}

int FaultySystem::describe(int descriptor, FileFacts& facts) const {
  const int result = System::describe(descriptor, facts);
  const std::scoped_lock lock(mutex_);
  if (result < 0 || !armed_) return result;
  for (const SystemFault& fault : faults_) {
    if (fault.kind != SystemFault::Kind::shrink) continue;
    if (!opened_[descriptor].path.ends_with(fault.path_ending)) continue;
    facts.size = std::min(facts.size, fault.size);
  }
  return result;
}

FaultySystem::Verdict FaultySystem::judge(const Opened& file, std::size_t length,
                                          std::uint64_t offset) const {
  Verdict verdict{.length = length};
  const std::scoped_lock lock(mutex_);
  if (!armed_) return verdict;
  for (std::size_t i = 0; i < faults_.size() && !verdict.decided; ++i) {
    const SystemFault& fault = faults_[i];
    if (!file.path.ends_with(fault.path_ending)) continue;
    if (!is_of_reads(fault.kind)) continue;
    const bool direct_only = fault.direct_only || fault.kind == SystemFault::Kind::refuse_direct ||
                             fault.kind == SystemFault::Kind::strict_direct;
    if (direct_only && !file.direct) continue;
    if (!is_due(i)) continue;
    apply(fault, file, offset, verdict);
  }
  return verdict;
}

void FaultySystem::apply(const SystemFault& fault, const Opened& file, std::uint64_t offset,
                         Verdict& verdict) const {
  const bool strict = fault.kind == SystemFault::Kind::strict_direct;
  if (strict && offset % 512 == 0 && verdict.length % 512 == 0 &&
      offset + verdict.length <= file.size) {
    return;
  }
  ++hits_;
  const auto decide = [&verdict](std::int64_t result) {
    verdict.result = result;
    verdict.decided = true;
  };
  switch (fault.kind) {
    case SystemFault::Kind::short_read:
      verdict.length = std::max<std::size_t>(verdict.length / 2, 1);
      return;
    case SystemFault::Kind::end_of_file:
      return decide(0);
    case SystemFault::Kind::interrupted:
      return decide(-EINTR);
    case SystemFault::Kind::again:
      return decide(-EAGAIN);
    case SystemFault::Kind::refuse_direct:
    case SystemFault::Kind::strict_direct:
      return decide(-EINVAL);
    case SystemFault::Kind::error:
      return decide(-fault.error_number);
    case SystemFault::Kind::delay: {
      std::uniform_int_distribution<std::int64_t> delay(0, fault.max_delay.count());
      verdict.delay += std::chrono::microseconds(delay(random_));
      return;
    }
    case SystemFault::Kind::refuse_ring:
    case SystemFault::Kind::refuse_copy:
    case SystemFault::Kind::busy_ring:
      return;  // no fault of a read
    case SystemFault::Kind::shrink: {
      if (offset >= fault.size) return decide(0);
      verdict.length = std::min<std::uint64_t>(verdict.length, fault.size - offset);
      return;
    }
  }
}

FaultySystem::Opened FaultySystem::file_of(int descriptor) const {
  const std::scoped_lock lock(mutex_);
  return opened_[descriptor];
}

std::int64_t FaultySystem::pread(int descriptor, std::byte* to, std::size_t length,
                                 std::uint64_t offset) const {
  const Verdict verdict = judge(file_of(descriptor), length, offset);
  if (verdict.delay.count() > 0) std::this_thread::sleep_for(verdict.delay);
  if (verdict.decided) return verdict.result;
  // The system is asked for all of it, so that what it says about alignment stays the same.
  const std::int64_t got = System::pread(descriptor, to, length, offset);
  return std::min(got, static_cast<std::int64_t>(verdict.length));
}

const std::byte* FaultySystem::map(int descriptor, std::uint64_t length, int& error) const {
  const std::byte* mapping = System::map(descriptor, length, error);
  const std::scoped_lock lock(mutex_);
  if (mapping != nullptr) mapped_[mapping] = {opened_[descriptor], length};
  return mapping;
}

void FaultySystem::unmap(const std::byte* mapping, std::uint64_t length) const {
  {
    const std::scoped_lock lock(mutex_);
    mapped_.erase(mapping);
  }
  System::unmap(mapping, length);
}

std::int64_t FaultySystem::copy_mapped(std::byte* to, const std::byte* from,
                                       std::size_t length) const {
  int error = 0;
  if (happens(SystemFault::Kind::refuse_copy, error)) return -error;
  Opened file;
  std::uint64_t offset;
  {
    const std::scoped_lock lock(mutex_);
    const auto after = mapped_.upper_bound(from);
    const auto mapping = after == mapped_.begin() ? mapped_.end() : std::prev(after);
    if (mapping == mapped_.end() || from >= mapping->first + mapping->second.length) {
      return System::copy_mapped(to, from, length);  // not from a file
    }
    offset = static_cast<std::uint64_t>(from - mapping->first);
    file = mapping->second.file;
  }
  const Verdict verdict = judge(file, length, offset);
  if (verdict.delay.count() > 0) std::this_thread::sleep_for(verdict.delay);
  // Mapped memory has no end of file and no error numbers: there is a page or there is none.
  if (verdict.decided)
    return verdict.result == 0 || verdict.result == -EIO ? -EFAULT : verdict.result;
  return System::copy_mapped(to, from, verdict.length);
}

/// A ring whose results go wrong as the system's reads do.
class FaultyRing final : public Ring {
 public:
  FaultyRing(std::unique_ptr<Ring> inner, const FaultySystem& system)
      : inner_(std::move(inner)), system_(system), always_ready_(::eventfd(1, EFD_CLOEXEC)) {}
  FaultyRing(const FaultyRing&) = delete;
  FaultyRing& operator=(const FaultyRing&) = delete;
  ~FaultyRing() override {
    inner_.reset();
    ::close(always_ready_);
  }

  void read(int descriptor, std::byte* to, std::size_t length, std::uint64_t offset,
            std::uint64_t tag, bool patient) override {
    const auto verdict = system_.judge(system_.file_of(descriptor), length, offset);
    verdicts_.insert_or_assign(tag, verdict);
    if (verdict.decided) {
      inner_->poll(always_ready_, tag);
    } else {
      inner_->read(descriptor, to, length, offset, tag, patient);
    }
  }
  void poll(int descriptor, std::uint64_t tag) override { inner_->poll(descriptor, tag); }
  int submit_and_wait() override {
    int error = 0;
    if (system_.happens(SystemFault::Kind::busy_ring, error)) return -error;
    return inner_->submit_and_wait();
  }

  bool next(RingResult& result) override {
    if (!inner_->next(result)) return false;
    const auto verdict = verdicts_.find(result.tag);
    if (verdict == verdicts_.end()) return true;
    if (verdict->second.delay.count() > 0) std::this_thread::sleep_for(verdict->second.delay);
    const auto longest = static_cast<std::int64_t>(verdict->second.length);
    result.result =
        verdict->second.decided ? verdict->second.result : std::min(result.result, longest);
    verdicts_.erase(verdict);
    return true;
  }

  std::uint64_t memory_bytes() const override { return inner_->memory_bytes(); }

 private:
  std::unique_ptr<Ring> inner_;
  const FaultySystem& system_;
  const int always_ready_;
  std::map<std::uint64_t, FaultySystem::Verdict> verdicts_;  // by tag
};

bool FaultySystem::happens(SystemFault::Kind kind, int& error_number) const {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (!armed_ || faults_[i].kind != kind || !is_due(i)) continue;
    ++hits_;
    error_number = faults_[i].error_number;
    return true;
  }
  return false;
}

bool FaultySystem::is_due(std::size_t i) const {
  const SystemFault& fault = faults_[i];
  const std::uint64_t call = calls_[i]++;
  if (call < fault.from || (call - fault.from) % fault.every != 0) return false;
  return (call - fault.from) / fault.every < fault.count;
}

std::unique_ptr<Ring> FaultySystem::make_ring(unsigned entries, int& error) const {
  if (happens(SystemFault::Kind::refuse_ring, error)) return nullptr;
  auto ring = System::make_ring(entries, error);
  if (ring == nullptr) return nullptr;
  return std::make_unique<FaultyRing>(std::move(ring), *this);
}

}  // namespace sluice::io
