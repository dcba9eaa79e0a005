// What the tests of this layer share: files with known content, rooms, a sink that collects.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/reader.h"

namespace sluice::io::testing {

namespace fs = std::filesystem;

/// The byte that a test file has at `offset`: different in each block and between neighbours.
inline std::byte content_at(std::uint64_t offset) {
  std::uint64_t x = offset * 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  return static_cast<std::byte>(x & 0xFF);
}

inline ::testing::AssertionResult is_content(std::span<const std::byte> bytes,
                                             std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != content_at(offset + i)) {
      return ::testing::AssertionFailure()
             << "byte " << i << " of " << bytes.size() << " differs, file offset " << offset + i;
    }
  }
  return ::testing::AssertionSuccess();
}

class TempFolder {
 public:
  explicit TempFolder(const fs::path& parent = fs::temp_directory_path()) {
    std::string name = (parent / "sluice-io-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }

  /// Writes `size` bytes of the known content.
  fs::path file(const std::string& name, std::uint64_t size) const {
    std::vector<char> bytes(size);
    for (std::uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(content_at(i));
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(size));
    return path_ / name;
  }

 private:
  fs::path path_;
};

/// Aligned memory for one extent.
class Room {
 public:
  explicit Room(std::size_t size)
      : size_(size), memory_(static_cast<std::byte*>(std::aligned_alloc(kRoomAlignment, size))) {}
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// Keeps completions in the order of arrival.
class Collector final : public CompletionSink {
 public:
  void complete(Completion completion) noexcept override {
    const std::scoped_lock lock(mutex_);
    completions_.push_back(std::move(completion));
    arrived_.notify_all();
  }

  /// Waits for `count` completions in all (a test that waits in vain fails by its time limit).
  std::vector<Completion> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return completions_.size() >= count; });
    return completions_;
  }

  std::vector<Completion> so_far() {
    const std::scoped_lock lock(mutex_);
    return completions_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Completion> completions_;
};

/// Requests with their rooms.
class Batch {
 public:
  Batch(const Reader& reader, CompletionSink& sink) : reader_(reader), sink_(sink) {}

  void add(Extent extent, std::uint64_t tag, Priority priority = Priority::needed) {
    rooms_.emplace_back(reader_.room_for(extent.length));
    requests_.push_back({.extent = extent,
                         .room = rooms_.back().bytes(),
                         .priority = priority,
                         .purpose = Purpose::other,
                         .tag = tag,
                         .sink = &sink_});
  }
  std::span<const ReadRequest> requests() const { return requests_; }
  std::size_t size() const { return requests_.size(); }

 private:
  const Reader& reader_;
  CompletionSink& sink_;
  std::vector<Room> rooms_;
  std::vector<ReadRequest> requests_;
};

}  // namespace sluice::io::testing
