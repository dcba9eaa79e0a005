#include "store/pack_reader.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/size.h"
#include "base/thread_pool.h"

namespace sluice::store {
namespace {

/// Memory for the few extents that are read with more around them.
class Bounce {
 public:
  /// Nothing when the system has no memory.
  static std::optional<Bounce> allocate(std::size_t bytes) {
    void* const data = ::operator new(bytes, std::align_val_t(io::kRoomAlignment), std::nothrow);
    if (data == nullptr) return std::nullopt;
    return Bounce(static_cast<std::byte*>(data), bytes);
  }
  std::span<std::byte> bytes() const { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t(io::kRoomAlignment));
    }
  };
  Bounce(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_;
};

// Checksums of less than this are computed where the bytes arrive: handing them on costs more.
constexpr std::uint64_t kSmallCheck = std::uint64_t{32} << 10;
// One thread computes about as many bytes per second as two drives give.
constexpr std::size_t kMostCheckers = 4;

/// Large extents are checked on threads of their own, so that whoever reads goes on reading.
///
/// Locks: one mutex guards the flights, the counts of the relays and the queue of the checkers. It
/// is taken alone: never held while the inner reader or a sink is called, nor while a checksum is
/// computed.
class PackReader final : public io::Reader {
 public:
  PackReader(std::unique_ptr<io::Reader> inner, std::shared_ptr<const Pack> pack,
             std::vector<io::FileId> parts, PackCheck check, std::uint64_t most_bounce)
      : inner_(std::move(inner)),
        pack_(std::move(pack)),
        parts_(std::move(parts)),
        check_(check),
        most_bounce_(most_bounce) {
    if (check_ == PackCheck::on) start_checkers();
  }
  ~PackReader() override {
    inner_.reset();  // its threads call the relays
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (const pthread_t checker : checkers_) pthread_join(checker, nullptr);
  }

  Result<io::FileId> open(const std::filesystem::path& path) override { return inner_->open(path); }
  std::uint64_t size(io::FileId file) const override {
    return file == kPackStream ? pack_->stream_bytes() : inner_->size(file);
  }
  const std::filesystem::path& path(io::FileId file) const override {
    return inner_->path(file == kPackStream ? parts_[0] : file);
  }
  /// The stream lies on all of its drives; it is the first one that this tells.
  std::size_t drive_of(io::FileId file) const override {
    return inner_->drive_of(file == kPackStream ? parts_[0] : file);
  }
  std::size_t room_for(std::uint64_t length) const override { return inner_->room_for(length); }
  io::ReaderStatistics statistics() const override { return inner_->statistics(); }
  std::uint64_t memory_bytes() const override {
    return inner_->memory_bytes() + checkers_.size() * kThreadStackBytes;
  }

  void submit(std::span<const io::ReadRequest> requests) override;
  void promote(const io::CompletionSink& sink, std::uint64_t tag) override;
  void cancel(const io::CompletionSink& sink) override;

 private:
  /// Stands between the inner reader and one sink, so that the sink's reads can be cancelled. Free
  /// again when none is under way and nobody holds it; never destroyed before the reader.
  struct Relay final : io::CompletionSink {
    explicit Relay(PackReader& reader) : owner(reader) {}
    void complete(io::Completion completion) noexcept override {
      owner.arrived(*this, std::move(completion));
    }
    bool is_free() const { return flights == 0 && holds == 0; }

    PackReader& owner;
    const io::CompletionSink* sink = nullptr;
    std::size_t flights = 0;
    std::size_t holds = 0;  // by who calls the inner reader with it, without the lock
  };

  /// A request on its way, in one or more pieces.
  struct Flight {
    io::ReadRequest asked;
    Pack::Range range;             // what is read: asked.extent, or more
    std::optional<Bounce> bounce;  // where to, when it is more
    std::uint64_t pieces = 0;      // their tags follow each other, from the flight's own on
    std::uint64_t pieces_left = 0;
    std::optional<Error> error;
  };

  /// A flight and whose it is.
  struct Owned {
    Relay* relay;
    Flight flight;
  };

  Relay& relay_for(const io::CompletionSink& sink);
  Relay* find_relay(const io::CompletionSink& sink);
  Flight make_flight(const io::ReadRequest& asked) const;
  void enter(std::vector<Owned>& made, std::vector<io::ReadRequest>& requests);
  void add_pieces(std::uint64_t first_tag, Flight& flight, Relay& relay,
                  std::vector<io::ReadRequest>& requests) const;
  void arrived(Relay& relay, io::Completion completion) noexcept;
  void deliver(Relay& relay, Flight& flight) noexcept;
  void start_checkers();
  static void* checker_main(void* reader);
  void serve_checks() noexcept;
  Result<std::span<const std::byte>> finish(Flight& flight) const;

  std::unique_ptr<io::Reader> inner_;
  const std::shared_ptr<const Pack> pack_;
  const std::vector<io::FileId> parts_;
  const PackCheck check_;
  const std::uint64_t most_bounce_;

  std::mutex mutex_;
  std::list<Relay> relays_;
  std::map<std::uint64_t, Flight> flights_;  // by the tag of their first piece
  std::uint64_t next_tag_ = 0;
  std::deque<Owned> checks_;  // all there, to be checked and delivered
  std::condition_variable work_;
  std::condition_variable idle_;  // a relay has nothing under way any more
  bool stop_ = false;
  std::vector<pthread_t> checkers_;  // constant once the reader is made
};

void PackReader::start_checkers() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  const std::size_t wanted = std::min(kMostCheckers, (parts_.size() + 1) / 2);
  for (std::size_t i = 0; i < wanted; ++i) {
    pthread_t thread;
    // Without a thread the work is done where the bytes arrive.
    if (pthread_create(&thread, &attributes, &checker_main, this) != 0) break;
    checkers_.push_back(thread);
  }
  pthread_attr_destroy(&attributes);
}

void* PackReader::checker_main(void* reader) {
  static_cast<PackReader*>(reader)->serve_checks();
  return nullptr;
}

void PackReader::serve_checks() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || !checks_.empty(); });
    if (checks_.empty()) return;
    Owned check = std::move(checks_.front());
    checks_.pop_front();
    lock.unlock();
    deliver(*check.relay, check.flight);
    lock.lock();
  }
}

PackReader::Relay* PackReader::find_relay(const io::CompletionSink& sink) {
  for (Relay& relay : relays_) {
    if (!relay.is_free() && relay.sink == &sink) return &relay;
  }
  return nullptr;
}

PackReader::Relay& PackReader::relay_for(const io::CompletionSink& sink) {
  if (Relay* const relay = find_relay(sink)) return *relay;
  for (Relay& relay : relays_) {
    if (!relay.is_free()) continue;
    relay.sink = &sink;
    return relay;
  }
  Relay& relay = relays_.emplace_back(*this);
  relay.sink = &sink;
  return relay;
}

PackReader::Flight PackReader::make_flight(const io::ReadRequest& asked) const {
  Flight flight;
  flight.asked = asked;
  const io::Extent& extent = asked.extent;
  flight.range = {extent.offset, extent.offset + extent.length};
  const bool inside = extent.offset <= pack_->stream_bytes() &&
                      extent.length <= pack_->stream_bytes() - extent.offset;
  if (check_ == PackCheck::off || !inside) return flight;
  const Pack::Range whole = pack_->whole_units(flight.range);
  if (whole == flight.range) return flight;
  const std::uint64_t bytes = whole.end - whole.begin;
  if (bytes > most_bounce_) {
    flight.error = Error{
        ErrorKind::model_files,
        fmt::format("{}: expected checksums of at most {} around the {} bytes at offset {} of the "
                    "stream, found checksums of {} bytes; pack the model again",
                    path(kPackStream).parent_path().string(), format_size(most_bounce_),
                    extent.length, extent.offset, bytes)};
    return flight;
  }
  flight.bounce = Bounce::allocate(round_up(inner_->room_for(bytes), io::kRoomAlignment));
  if (!flight.bounce) {
    flight.error = Error{ErrorKind::memory,
                         fmt::format("the system has no {} for checking what is read from a pack",
                                     format_size(bytes))};
    return flight;
  }
  flight.range = whole;
  return flight;
}

/// Adds the requests for the flight's pieces. All but the first begin at multiples of 4096, in the
/// stream as in their files, so each lands where it belongs.
void PackReader::add_pieces(std::uint64_t first_tag, Flight& flight, Relay& relay,
                            std::vector<io::ReadRequest>& requests) const {
  const std::span<std::byte> room = flight.bounce ? flight.bounce->bytes() : flight.asked.room;
  io::ReadRequest piece = flight.asked;
  piece.sink = &relay;
  const auto add = [&] {
    piece.tag = first_tag + flight.pieces++;
    requests.push_back(piece);
  };
  const auto [begin, end] = flight.range;
  const bool inside = end <= pack_->stream_bytes();
  if (begin >= end || !inside) {
    // Nothing to read, or an extent outside the stream: let the inner reader say so.
    piece.extent = {parts_[0], inside ? 0 : inner_->size(parts_[0]) + 1, end - begin};
    add();
  } else {
    const std::uint64_t window = begin / io::kRoomAlignment * io::kRoomAlignment;
    const std::uint64_t stop = end;  // a structured binding cannot be captured
    const std::uint64_t start = begin;
    pack_->for_each_piece(start, stop - start, [&](std::uint64_t at, const PartExtent& part) {
      const std::uint64_t first = at == start ? 0 : at - window;
      const std::uint64_t last = round_up(at + part.length - window, io::kRoomAlignment);
      piece.extent = {parts_[part.part], part.offset, part.length};
      piece.room = room.subspan(
          static_cast<std::size_t>(first),
          at + part.length == stop ? std::dynamic_extent : static_cast<std::size_t>(last - first));
      add();
    });
  }
  flight.pieces_left = flight.pieces;
}

/// Enters those that have no error, and adds their pieces to `requests`. All get their relays.
/// Whatever may fail for want of memory comes before the first counts as under way.
void PackReader::enter(std::vector<Owned>& made, std::vector<io::ReadRequest>& requests) {
  const std::scoped_lock lock(mutex_);
  std::map<std::uint64_t, Flight> entered;
  std::uint64_t tag = next_tag_;
  for (auto& [relay, flight] : made) {
    relay = &relay_for(*flight.asked.sink);
    ++relay->holds;
    if (flight.error) continue;
    add_pieces(tag, flight, *relay, requests);
    const std::uint64_t pieces = flight.pieces;
    entered.emplace(tag, std::move(flight));
    tag += pieces;
  }
  next_tag_ = tag;
  flights_.merge(entered);
  for (const Owned& each : made) {
    --each.relay->holds;
    ++each.relay->flights;
  }
}

/// What fails ends here, so that all that counts as under way reaches the inner reader.
void PackReader::submit(std::span<const io::ReadRequest> asked) {
  std::vector<io::ReadRequest> requests;
  std::vector<Owned> made;
  for (const io::ReadRequest& each : asked) {
    if (each.extent.file != kPackStream) {
      requests.push_back(each);
    } else {
      made.push_back({nullptr, make_flight(each)});
    }
  }
  enter(made, requests);
  if (!requests.empty()) inner_->submit(requests);
  for (Owned& each : made) {
    if (each.flight.error) deliver(*each.relay, each.flight);
  }
}

void PackReader::promote(const io::CompletionSink& sink, std::uint64_t tag) {
  std::vector<std::uint64_t> tags;
  Relay* relay = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    relay = find_relay(sink);
    if (relay != nullptr) ++relay->holds;
    for (const auto& [first, flight] : flights_) {
      if (flight.asked.sink != &sink || flight.asked.tag != tag) continue;
      for (std::uint64_t i = 0; i < flight.pieces; ++i) tags.push_back(first + i);
    }
  }
  if (relay != nullptr) {
    for (const std::uint64_t each : tags) inner_->promote(*relay, each);
    const std::scoped_lock lock(mutex_);
    --relay->holds;
  }
  inner_->promote(sink, tag);
}

void PackReader::cancel(const io::CompletionSink& sink) {
  Relay* relay = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    relay = find_relay(sink);
    if (relay != nullptr) ++relay->holds;
  }
  if (relay != nullptr) {
    inner_->cancel(*relay);
    // The relay counts as in use until the sink's last completion returned.
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return relay->flights == 0; });
    --relay->holds;
  }
  inner_->cancel(sink);
}

void PackReader::arrived(Relay& relay, io::Completion completion) noexcept {
  std::optional<Flight> done;
  {
    const std::scoped_lock lock(mutex_);
    auto at = flights_.upper_bound(completion.tag);
    SLUICE_CHECK(at != flights_.begin());
    --at;
    Flight& flight = at->second;
    if (!completion.bytes && !flight.error) flight.error = std::move(completion.bytes).error();
    if (--flight.pieces_left > 0) return;
    const bool later =
        !checkers_.empty() && !flight.error && flight.range.end - flight.range.begin >= kSmallCheck;
    if (later) {
      checks_.push_back({&relay, std::move(flight)});
    } else {
      done.emplace(std::move(flight));
    }
    flights_.erase(at);
  }
  if (done) {
    deliver(relay, *done);
  } else {
    work_.notify_one();
  }
}

void PackReader::deliver(Relay& relay, Flight& flight) noexcept {
  flight.asked.sink->complete({flight.asked.tag, finish(flight)});
  const std::scoped_lock lock(mutex_);
  if (--relay.flights == 0) idle_.notify_all();
}

Result<std::span<const std::byte>> PackReader::finish(Flight& flight) const {
  if (flight.error) return tl::unexpected(std::move(*flight.error));
  const auto [begin, end] = flight.range;
  const std::size_t skip = static_cast<std::size_t>(begin % io::kRoomAlignment);
  const std::span<std::byte> room = flight.bounce ? flight.bounce->bytes() : flight.asked.room;
  const auto bytes = room.subspan(skip, static_cast<std::size_t>(end - begin));
  std::optional<Error> damage;
  if (check_ == PackCheck::on) {
    pack_->check(begin, bytes, [&](const PackFault& fault) {
      if (damage) return;
      damage = Error{ErrorKind::model_files,
                     fault.message +
                         "; sluice verify lists all damage, and sluice pack makes the "
                         "pack anew"};
    });
  }
  if (damage) return tl::unexpected(std::move(*damage));
  if (!flight.bounce) return bytes;
  const auto length = static_cast<std::size_t>(flight.asked.extent.length);
  std::memcpy(flight.asked.room.data(), bytes.data() + (flight.asked.extent.offset - begin),
              length);
  return flight.asked.room.first(length);
}

}  // namespace

std::unique_ptr<io::Reader> make_pack_reader(std::unique_ptr<io::Reader> inner,
                                             std::shared_ptr<const Pack> pack,
                                             std::vector<io::FileId> parts, PackCheck check,
                                             std::uint64_t most_bounce) {
  SLUICE_CHECK(parts.size() == pack->parts().size());
  return std::make_unique<PackReader>(std::move(inner), std::move(pack), std::move(parts), check,
                                      most_bounce);
}

}  // namespace sluice::store
