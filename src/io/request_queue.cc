#include "io/request_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/size.h"

namespace sluice::io {
namespace {

Error interrupted(const Request& request) {
  return {ErrorKind::interrupted,
          fmt::format("{}: the read of {} bytes at offset {} was cancelled",
                      request.file.path().string(), request.asked.extent.length,
                      request.asked.extent.offset)};
}

Error outside(const Request& request) {
  return {ErrorKind::model_files,
          fmt::format("{}: {} bytes at offset {} lie outside the file of {} bytes",
                      request.file.path().string(), request.asked.extent.length,
                      request.asked.extent.offset, request.file.size())};
}

}  // namespace

std::size_t room_for_extent(std::uint64_t length) {
  return static_cast<std::size_t>(round_up(length, kRoomAlignment) + kRoomAlignment);
}

Request::Request(const ReadRequest& asked_for, OpenFile& from)
    : asked(asked_for),
      file(from),
      skip(static_cast<std::size_t>(asked_for.extent.offset % kRoomAlignment)),
      left(asked_for.extent.length == 0 ? 0 : skip + asked_for.extent.length) {}

RequestQueue::RequestQueue(std::uint64_t piece_bytes) : piece_bytes_(piece_bytes) {
  SLUICE_CHECK(piece_bytes > 0 && piece_bytes % kRoomAlignment == 0);
}

void RequestQueue::push(const ReadRequest& asked, OpenFile& file) {
  Requests made;
  Request& request = made.emplace_back(asked, file);
  if (!lies_inside(asked.extent, file.size())) {
    request.error = outside(request);
    request.left = 0;
    request.skip = 0;
  }
  SLUICE_CHECK(asked.sink != nullptr);
  SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(asked.room.data()) % kRoomAlignment == 0);
  SLUICE_CHECK(request.left == 0 || asked.room.size() >= round_up(request.left, kRoomAlignment));
  const bool one_piece = request.left <= piece_bytes_;
  {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(!closed_);
    ++outstanding_[asked.sink];
    Requests& list =
        request.left == 0 ? settled_ : queued_[static_cast<std::size_t>(asked.priority)];
    list.splice(list.end(), made);
  }
  if (one_piece) {
    work_.notify_one();
  } else {
    work_.notify_all();
  }
}

std::optional<Piece> RequestQueue::take() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::optional<Piece> piece = next_piece();
    if (piece || closed_) return piece;
    work_.wait(lock);
  }
}

std::optional<Piece> RequestQueue::try_take() {
  const std::scoped_lock lock(mutex_);
  return next_piece();
}

std::optional<Piece> RequestQueue::next_piece() {
  if (!settled_.empty()) {
    Request& request = settled_.front();
    ++request.under_way;
    under_way_.splice(under_way_.end(), settled_, settled_.begin());
    return Piece{.request = &request};
  }
  for (Requests& queue : queued_) {
    if (queue.empty()) continue;
    Request& request = queue.front();
    const Piece piece{.request = &request,
                      .offset = request.window_offset() + request.next,
                      .to = request.asked.room.data() + request.next,
                      .length = std::min(request.left, piece_bytes_),
                      .priority = request.asked.priority};
    request.next += piece.length;
    request.left -= piece.length;
    ++request.under_way;
    if (request.left == 0) under_way_.splice(under_way_.end(), queue, queue.begin());
    return piece;
  }
  return std::nullopt;
}

FinishedRequest RequestQueue::finish(const Piece& piece, const ReadOutcome& outcome) {
  Request& request = *piece.request;
  FinishedRequest finished;
  const std::scoped_lock lock(mutex_);
  const auto is_this = [&](const Request& other) { return &other == &request; };
  if (!outcome.complete(piece.length) && !request.error) {
    request.error = read_error(request.file.path(), piece.offset, piece.length, outcome);
    if (request.left > 0) {
      request.left = 0;
      Requests& queue = queued_[static_cast<std::size_t>(request.asked.priority)];
      under_way_.splice(under_way_.end(), queue, std::find_if(queue.begin(), queue.end(), is_this));
    }
  }
  --request.under_way;
  if (request.under_way == 0 && request.left == 0) {
    finished.splice(finished.end(), under_way_,
                    std::find_if(under_way_.begin(), under_way_.end(), is_this));
  }
  return finished;
}

void RequestQueue::delivered(const CompletionSink* sink) {
  const std::scoped_lock lock(mutex_);
  const auto entry = outstanding_.find(sink);
  SLUICE_CHECK(entry != outstanding_.end());
  if (--entry->second > 0) return;
  outstanding_.erase(entry);
  idle_.notify_all();
}

bool RequestQueue::failed(const Piece& piece) {
  const std::scoped_lock lock(mutex_);
  return piece.request->error.has_value();
}

void RequestQueue::promote(const CompletionSink& sink, std::uint64_t tag) {
  const std::scoped_lock lock(mutex_);
  Requests& needed = queued_[static_cast<std::size_t>(Priority::needed)];
  for (Requests& queue : queued_) {
    if (&queue == &needed) continue;
    for (auto request = queue.begin(); request != queue.end();) {
      const auto here = request++;
      if (here->asked.sink != &sink || here->asked.tag != tag) continue;
      here->asked.priority = Priority::needed;
      needed.splice(needed.end(), queue, here);
    }
  }
}

RequestQueue::Requests::iterator RequestQueue::drop_one(Requests& queue,
                                                        Requests::iterator request) {
  const auto after = std::next(request);
  request->left = 0;
  if (!request->error) request->error = interrupted(*request);
  Requests& to = request->under_way == 0 ? settled_ : under_way_;
  to.splice(to.end(), queue, request);
  return after;
}

void RequestQueue::drop(const CompletionSink& sink) {
  {
    const std::scoped_lock lock(mutex_);
    for (Requests& queue : queued_) {
      for (auto request = queue.begin(); request != queue.end();) {
        request = request->asked.sink == &sink ? drop_one(queue, request) : std::next(request);
      }
    }
  }
  work_.notify_all();
}

void RequestQueue::wait_for(const CompletionSink& sink) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return outstanding_.find(&sink) == outstanding_.end(); });
}

bool RequestQueue::idle() {
  const std::scoped_lock lock(mutex_);
  return outstanding_.empty();
}

void RequestQueue::close() {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    for (Requests& queue : queued_) {
      for (auto request = queue.begin(); request != queue.end();) {
        request = drop_one(queue, request);
      }
    }
  }
  work_.notify_all();
}

}  // namespace sluice::io
