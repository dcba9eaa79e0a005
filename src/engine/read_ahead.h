// Extents read one after the other, several under way at a time, handed out in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/ledger.h"
#include "io/reader.h"

namespace sluice::engine {

/// For walking over a whole model: pack and verify. Its memory is `depth` rooms for `most_bytes`.
class ReadAhead final : public io::CompletionSink {
 public:
  /// The extents to read, each at most `most_bytes`; nothing at the end.
  using Source = std::function<std::optional<io::Extent>()>;

  static Result<std::unique_ptr<ReadAhead>> create(io::Reader& reader, std::uint64_t most_bytes,
                                                   std::size_t depth, Source source);
  ~ReadAhead() override;

  /// The bytes of the next extent, valid until the next call, or why they cannot be had; nothing
  /// after the last.
  std::optional<Result<std::span<const std::byte>>> next();

  void complete(io::Completion completion) noexcept override;

 private:
  ReadAhead(io::Reader& reader, std::size_t depth, Source source);
  void fetch();

  io::Reader& reader_;
  const std::size_t depth_;
  Source source_;
  MemoryLedger ledger_;
  Buffer room_;
  std::uint64_t room_bytes_ = 0;  // of one extent
  std::uint64_t fetched_ = 0;     // extents asked for so far; extent i has room i % depth_
  std::uint64_t taken_ = 0;
  bool at_end_ = false;

  std::mutex mutex_;  // guards arrived_
  std::condition_variable signal_;
  std::vector<std::optional<Result<std::span<const std::byte>>>> arrived_;  // by room
};

}  // namespace sluice::engine
