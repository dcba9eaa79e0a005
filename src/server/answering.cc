#include "server/answering.h"

#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "server/asked.h"
#include "server/fields.h"
#include "server/request_parts.h"
#include "store/checksum.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

// How long a wait for the engine may be before the client is looked after.
constexpr milliseconds kPatience{50};
// Between two writes to a stream: of a model so fast that several tokens come meanwhile, waking up
// and sending for each would take from the engine what is a part of its speed.
constexpr milliseconds kRest{10};
constexpr auto kHeartbeat = std::chrono::seconds(5);

/// Of a request that is answered in the same way whenever it comes.
std::uint64_t hash_of(std::string_view path, std::string_view body) {
  store::Checksum checksum;
  for (const std::string_view part : {path, body}) {
    checksum.add(std::as_bytes(std::span(part.data(), part.size())));
  }
  return checksum.take();
}

/// As a part of a stream.
std::string written(const TaskEvent& event, AnswerWriter& writer) {
  switch (event.kind) {
    case TaskEvent::Kind::started:
      return {};
    case TaskEvent::Kind::done:
      return writer.end(event.usage);
    case TaskEvent::Kind::failed:
      return writer.failed(to_api_error(*event.error));
    default:
      return writer.event(event);
  }
}

}  // namespace

Answering::Answering(const ServedModel& model, Worker& worker, Metrics& metrics, JobsApi* jobs,
                     Parsing& parsing)
    : model_(model),
      worker_(worker),
      metrics_(metrics),
      jobs_(jobs),
      parsing_(parsing),
      next_id_(random_seed()) {}

/// A chat request that nobody waits for.
ApiResult<JobsApi::Chat> Answering::read_for_later(text::Json body) {
  if (jobs_ == nullptr) {
    return tl::unexpected(ApiError{400, "background: needs a server with --state-dir",
                                   "invalid_request_error", "background", "unsupported_value"});
  }
  body.erase("background");
  return jobs_->read_chat(body);
}

void Answering::keep(Exchange& exchange, JobsApi::Chat chat) {
  const auto kept = jobs_->keep(std::move(chat));
  if (!kept) return exchange.send_error(kept.error());
  exchange.send(202, kJsonType, kept->body);
}

void Answering::answer(Exchange& exchange, std::string_view path) {
  std::optional<JobsApi::Chat> for_later;
  auto asked = [&]() -> ApiResult<Asked> {
    const std::scoped_lock lock(parsing_.one_at_a_time);
    SLUICE_ASSIGN(text::Json body, parse_body(exchange.request().body, parsing_.most_values));
    if (path == kChatPath && body.value("background", text::Json()) == true) {
      SLUICE_ASSIGN(for_later, read_for_later(std::move(body)));
      return Asked{};
    }
    SLUICE_ASSIGN(Asked read, read_asked(path, body, model_, new_id(), random_seed()));
    if (!is_drawn_anew(body, read.generation)) {
      read.generation.key =
          model_.key_of(hash_of(path, exchange.request().body), read.generation.adapter);
    }
    return read;
  }();
  exchange.connection().drop_body(exchange.request());
  if (!asked) return exchange.send_error(asked.error());
  if (for_later) return keep(exchange, std::move(*for_later));
  const auto task = std::make_shared<Task>(asked->id, exchange.client() + "/" + asked->user,
                                           std::move(asked->generation));
  if (!worker_.submit(task)) return exchange.send_error(not_taken());
  try {
    if (asked->stream) {
      stream(exchange, task, *asked->writer);
    } else {
      collect(exchange, task, *asked->writer);
    }
  } catch (...) {
    worker_.cancel(task);  // nobody takes what it writes
    throw;
  }
}

/// By the worker.
ApiError Answering::not_taken() {
  if (worker_.is_stopping()) return to_api_error({ErrorKind::interrupted, {}});
  return queue_full();
}

ApiError Answering::queue_full() {
  metrics_.count_refused();
  const WorkerStatus now = worker_.status();
  const std::size_t seconds = worker_.retry_after();
  ApiError error = {429,
                    fmt::format("{} requests wait already, as many as may; yours would have been "
                                "number {}; try again in about {} s",
                                now.queued, now.queued + 1, seconds),
                    "rate_limit_error",
                    {},
                    "queue_full"};
  error.headers.emplace_back("Retry-After", std::to_string(seconds));
  error.headers.emplace_back("X-Queue-Position", std::to_string(now.queued + 1));
  return error;
}

/// For a stream whose task waits: at which place, and how long about; empty where that was told.
std::string Answering::place_of(const std::shared_ptr<Task>& task, bool again,
                                std::optional<std::size_t>& told) const {
  const auto turn = worker_.turn(task);
  if (!turn || turn->before == 0 || (told == turn->before && !again)) return {};
  told = turn->before;
  if (!turn->seconds) return fmt::format(": {} before this one\n\n", turn->before);
  return fmt::format(": {} before this one, about {:.0f} s\n\n", turn->before, *turn->seconds);
}

void Answering::stream(Exchange& exchange, const std::shared_ptr<Task>& task,
                       AnswerWriter& writer) {
  HttpConnection& connection = exchange.connection();
  exchange.begin_stream();
  connection.stream(writer.begin());
  auto silent_since = Clock::now();
  std::optional<std::size_t> told;  // how many are before it
  while (true) {
    const auto events = task->take(kPatience, Task::Wake::event);
    if (connection.is_gone()) return drop(task);
    std::string text;
    bool is_over = false;
    for (const TaskEvent& event : events) {
      text += written(event, writer);
      is_over = event.kind == TaskEvent::Kind::done || event.kind == TaskEvent::Kind::failed;
    }
    if (events.empty()) {
      const bool is_late = Clock::now() - silent_since >= kHeartbeat;
      text = place_of(task, is_late, told);
      if (is_late) text += writer.heartbeat();
    }
    connection.stream(text);
    if (is_over) {
      connection.end_stream();
      return answered(*task, events.back());
    }
    if (events.empty() && text.empty()) continue;
    silent_since = Clock::now();
    std::this_thread::sleep_for(kRest);
  }
}

void Answering::collect(Exchange& exchange, const std::shared_ptr<Task>& task,
                        AnswerWriter& writer) {
  AnswerCollector collector(task->generation());
  while (true) {
    const auto events = task->take(kPatience, Task::Wake::end);
    if (exchange.connection().is_gone()) return drop(task);
    for (const TaskEvent& event : events) {
      if (event.kind == TaskEvent::Kind::done) {
        exchange.send(200, kJsonType, writer.whole_line(collector.choices(), event.usage));
        return answered(*task, event);
      }
      if (event.kind == TaskEvent::Kind::failed) {
        return exchange.send_error(to_api_error(*event.error));
      }
      collector.add(event);
    }
  }
}

/// The last event was written.
void Answering::answered(const Task& task, const TaskEvent& last) {
  if (last.kind == TaskEvent::Kind::done) worker_.forget(task);
}

/// The client has left.
void Answering::drop(const std::shared_ptr<Task>& task) {
  worker_.cancel(task);
  metrics_.count_left();
}

std::string Answering::new_id() { return fmt::format("{:016x}", next_id_++ * 0x9e3779b97f4a7c15); }

}  // namespace sluice::server
