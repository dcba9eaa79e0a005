#include "io/faulty_system.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/check.h"

namespace sluice::io {

FaultySystem::FaultySystem(std::vector<SystemFault> faults, std::uint64_t seed)
    : faults_(std::move(faults)), random_(seed), calls_(faults_.size()) {}

int FaultySystem::open(const char* path, bool direct) const {
  const int descriptor = System::open(path, direct);
  const std::scoped_lock lock(mutex_);
  if (descriptor >= 0) opened_[descriptor] = {path, direct};
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
    if (fault.kind == SystemFault::Kind::refuse_direct && !file.direct) continue;
    const std::uint64_t call = calls_[i]++;
    if (call < fault.from || (call - fault.from) % fault.every != 0) continue;
    if ((call - fault.from) / fault.every >= fault.count) continue;
    ++hits_;
    apply(fault, offset, verdict);
  }
  return verdict;
}

void FaultySystem::apply(const SystemFault& fault, std::uint64_t offset, Verdict& verdict) const {
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
      return decide(-EINVAL);
    case SystemFault::Kind::error:
      return decide(-EIO);
    case SystemFault::Kind::delay: {
      std::uniform_int_distribution<std::int64_t> delay(0, fault.max_delay.count());
      verdict.delay += std::chrono::microseconds(delay(random_));
      return;
    }
    case SystemFault::Kind::shrink: {
      if (offset >= fault.size) return decide(0);
      verdict.length = std::min<std::uint64_t>(verdict.length, fault.size - offset);
      return;
    }
  }
}

std::int64_t FaultySystem::pread(int descriptor, std::byte* to, std::size_t length,
                                 std::uint64_t offset) const {
  Opened file;
  {
    const std::scoped_lock lock(mutex_);
    file = opened_[descriptor];
  }
  const Verdict verdict = judge(file, length, offset);
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
  Opened file;
  std::uint64_t offset;
  {
    const std::scoped_lock lock(mutex_);
    const auto after = mapped_.upper_bound(from);
    SLUICE_CHECK(after != mapped_.begin());
    const auto mapping = std::prev(after);
    offset = static_cast<std::uint64_t>(from - mapping->first);
    SLUICE_CHECK(offset + length <= mapping->second.length);
    file = mapping->second.file;
  }
  const Verdict verdict = judge(file, length, offset);
  if (verdict.delay.count() > 0) std::this_thread::sleep_for(verdict.delay);
  // Mapped memory has no end of file and no error numbers: there is a page or there is none.
  if (verdict.decided)
    return verdict.result == 0 || verdict.result == -EIO ? -EFAULT : verdict.result;
  return System::copy_mapped(to, from, verdict.length);
}

}  // namespace sluice::io
