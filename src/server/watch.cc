#include "server/watch.h"

#include <bit>
#include <span>

namespace sluice::server {
namespace {

const char* name_of(WorkerStatus::Phase phase) {
  switch (phase) {
    case WorkerStatus::Phase::idle:
      return "idle";
    case WorkerStatus::Phase::prefill:
      return "prefill";
    case WorkerStatus::Phase::decode:
      return "decode";
  }
  return "idle";
}

text::Json or_null(const std::optional<double>& number) {
  return number ? text::Json(*number) : text::Json();
}

text::Json request_of(const WorkerStatus& now) {
  if (now.task.empty()) return nullptr;
  return {{"id", now.task},
          {"choice", now.choice},
          {"choices", now.choices},
          {"layer", now.layer},
          {"prompt_tokens", now.prompt_tokens},
          {"prompt_tokens_done", now.prompt_done},
          {"tokens", now.generated},
          {"max_tokens", now.max_new},
          {"seconds", now.running_s},
          {"seconds_left", or_null(now.left_s)}};
}

text::Json memory_of(const MetricsSnapshot& now) {
  text::Json tenants = text::Json::object();
  for (const auto& [tenant, bytes] : now.live.memory) tenants[tenant] = bytes;
  return {{"budget_bytes", now.engine.ram_budget_bytes},
          {"resident_bytes", now.live.resident_bytes},
          {"peak_bytes", now.engine.peak_rss_bytes},
          {"tenants", std::move(tenants)},
          {"saved_conversations", now.saved_states},
          {"saved_conversation_bytes", now.saved_state_bytes},
          {"saved_on_disk_bytes", now.saved_on_disk_bytes},
          {"saved_written_bytes", now.saved_written_bytes}};
}

text::Json experts_of(const engine::LiveStatistics& live, std::size_t count) {
  return {{"count", count},
          {"hits", live.expert_hits},
          {"misses", live.expert_misses},
          {"hit_rate", live.expert_hit_rate()}};
}

text::Json prediction_of(const engine::Statistics& engine) {
  if (!engine.predicts_decode) return nullptr;
  return {{"low", engine.prediction.seconds.low}, {"high", engine.prediction.seconds.high}};
}

/// As they lie in memory: words on the wire are little-endian, as on all machines Sluice is for.
void append(std::string& bytes, std::span<const std::uint32_t> words) {
  static_assert(std::endian::native == std::endian::little);
  bytes.append(reinterpret_cast<const char*>(words.data()), words.size_bytes());
}

}  // namespace

text::Json Watch::drives(const MetricsSnapshot& now) const {
  const std::vector<io::DriveStatistics>& drives = now.live.reads.drives;
  const std::vector<std::optional<double>>& temperatures = now.engine.drive_temperatures;
  text::Json list = text::Json::array();
  for (std::size_t i = 0; i < drives.size(); ++i) {
    list.push_back(
        {{"path", drives[i].path},
         {"bytes", drives[i].bytes},
         {"busy_seconds", drives[i].busy_s},
         {"limit_bytes_per_second", or_null(limit_of(model_.drive_limits, drives[i].device))},
         {"temperature_celsius", i < temperatures.size() ? or_null(temperatures[i]) : nullptr}});
  }
  return list;
}

text::Json Watch::status() const {
  const WorkerStatus worker = worker_.status();
  const MetricsSnapshot now = worker_.snapshot();
  return {{"model", model_.name},
          {"started", model_.created},
          {"uptime_seconds", seconds_since(start_)},
          {"context_length", model_.context},
          {"phase", name_of(worker.phase)},
          {"layers", worker.layers},
          {"queued", worker.queued},
          {"queue_limit", worker.queue_limit},
          {"request", request_of(worker)},
          {"seconds_per_token", or_null(worker.seconds_per_token)},
          {"predicted_seconds_per_token", prediction_of(now.engine)},
          {"drives", drives(now)},
          {"experts", experts_of(now.live, worker_.activity().count())},
          {"memory", memory_of(now)}};
}

std::string Watch::experts(std::uint64_t since) const {
  const std::scoped_lock lock(listing_);
  const weights::ExpertActivity& activity = worker_.activity();
  const weights::ExpertActivity::Changes changes = activity.since(since);
  const std::uint32_t head[] = {
      static_cast<std::uint32_t>(activity.layers()), static_cast<std::uint32_t>(activity.experts()),
      static_cast<std::uint32_t>(changes.now), static_cast<std::uint32_t>(changes.now >> 32)};
  std::string bytes;
  bytes.reserve(sizeof(head) + changes.cells.size() * sizeof(std::uint32_t));
  append(bytes, head);
  append(bytes, changes.cells);
  return bytes;
}

}  // namespace sluice::server
