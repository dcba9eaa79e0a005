#include "engine/read_ahead.h"

#include <utility>

#include "base/size.h"

namespace sluice::engine {

ReadAhead::ReadAhead(io::Reader& reader, std::size_t depth, Source source)
    : reader_(reader),
      depth_(depth),
      source_(std::move(source)),
      ledger_(std::uint64_t{1} << 62),
      arrived_(depth) {}

Result<std::unique_ptr<ReadAhead>> ReadAhead::create(io::Reader& reader, std::uint64_t most_bytes,
                                                     std::size_t depth, Source source) {
  std::unique_ptr<ReadAhead> ahead(new ReadAhead(reader, depth, std::move(source)));
  ahead->room_bytes_ = round_up(reader.room_for(most_bytes), io::kRoomAlignment);
  SLUICE_ASSIGN(ahead->room_,
                Buffer::allocate(depth * ahead->room_bytes_, Tenant::activations, ahead->ledger_));
  return ahead;
}

ReadAhead::~ReadAhead() { reader_.cancel(*this); }

void ReadAhead::fetch() {
  // One room stays with the caller, who has the bytes of the extent before.
  while (!at_end_ && fetched_ < taken_ + depth_ - 1) {
    const std::optional<io::Extent> extent = source_();
    if (!extent) {
      at_end_ = true;
      return;
    }
    const std::size_t room = static_cast<std::size_t>(fetched_++ % depth_);
    const io::ReadRequest request{
        .extent = *extent,
        .room = room_.bytes().subspan(room * room_bytes_, static_cast<std::size_t>(room_bytes_)),
        .tag = room,
        .sink = this};
    reader_.submit({&request, 1});
  }
}

std::optional<Result<std::span<const std::byte>>> ReadAhead::next() {
  fetch();
  if (taken_ == fetched_) return std::nullopt;
  const std::size_t room = static_cast<std::size_t>(taken_++ % depth_);
  std::unique_lock lock(mutex_);
  signal_.wait(lock, [&] { return arrived_[room].has_value(); });
  return std::exchange(arrived_[room], std::nullopt);
}

void ReadAhead::complete(io::Completion completion) noexcept {
  const std::scoped_lock lock(mutex_);
  arrived_[static_cast<std::size_t>(completion.tag)] = std::move(completion.bytes);
  signal_.notify_all();
}

}  // namespace sluice::engine
