#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

namespace sluice::server {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildHistogram;
using prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

// From a model in memory to one that reads a terabyte for a token.
const Histogram::BucketBoundaries kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                              0.25,  0.5,    1,     2.5,  5,     10,   25,
                                              50,    100,    250,   500,  1000,  2500, 10000};

using Labels = std::vector<ClientMetric::Label>;

/// Families that are read off the engine's statistics at a scrape.
class Families {
 public:
  void add(const std::string& name, const std::string& help, MetricType type, double value,
           Labels labels = {}) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({name, help, type, {}});
    }
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void counter(const std::string& name, const std::string& help, double value, Labels labels = {}) {
    add(name, help, MetricType::Counter, value, std::move(labels));
  }
  void gauge(const std::string& name, const std::string& help, double value, Labels labels = {}) {
    add(name, help, MetricType::Gauge, value, std::move(labels));
  }
  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

double real(std::uint64_t number) { return static_cast<double>(number); }

void add_reads(const io::ReaderStatistics& reads, Families& families) {
  for (const io::DriveStatistics& drive : reads.drives) {
    families.counter("sluice_drive_read_bytes_total", "Bytes read, by drive", real(drive.bytes),
                     {{"drive", drive.path}});
  }
  for (const io::DriveStatistics& drive : reads.drives) {
    families.counter("sluice_drive_busy_seconds_total", "Time with a read under way, by drive",
                     drive.busy_s, {{"drive", drive.path}});
  }
  constexpr std::pair<io::Purpose, const char*> kClasses[] = {{io::Purpose::trunk, "trunk"},
                                                              {io::Purpose::expert, "expert"},
                                                              {io::Purpose::other, "other"}};
  for (const auto& [purpose, name] : kClasses) {
    families.counter("sluice_read_bytes_total", "Bytes of weights asked of drives, by class",
                     real(reads.requested_bytes[static_cast<std::size_t>(purpose)]),
                     {{"class", name}});
  }
}

void add_drive_limits(const io::ReaderStatistics& reads, const std::vector<DriveLimit>& limits,
                      Families& families) {
  for (const io::DriveStatistics& drive : reads.drives) {
    const auto limit = limit_of(limits, drive.device);
    if (!limit) continue;
    families.gauge("sluice_drive_limit_bytes_per_second",
                   "What the drive was measured to do when the server started", *limit,
                   {{"drive", drive.path}});
  }
}

void add_drive_temperatures(const engine::Statistics& engine, Families& families) {
  for (std::size_t i = 0; i < engine.drive_temperatures.size(); ++i) {
    if (!engine.drive_temperatures[i]) continue;
    families.gauge("sluice_drive_temperature_celsius", "Of the drive itself, where it tells",
                   *engine.drive_temperatures[i], {{"drive", engine.reads.drives[i].path}});
  }
}

void add_token_times(const engine::Statistics& engine, Families& families) {
  families.counter("sluice_drafted_tokens_total", "Tokens guessed and fed behind others (--draft)",
                   real(engine.tokens.drafted_tokens));
  families.counter("sluice_accepted_drafts_total", "Of them, right: they took no pass of their own",
                   real(engine.tokens.accepted_drafts));
  if (engine.tokens.decoded_tokens == 0) return;
  families.gauge("sluice_seconds_per_token", "Of decoding, measured since start",
                 engine.tokens.s_per_token());
  if (!engine.predicts_decode) return;
  constexpr const char* kName = "sluice_predicted_seconds_per_token";
  constexpr const char* kHelp = "What the drives and the arithmetic of this run let expect";
  families.gauge(kName, kHelp, engine.prediction.seconds.low, {{"end", "low"}});
  families.gauge(kName, kHelp, engine.prediction.seconds.high, {{"end", "high"}});
}

void add_memory(const MetricsSnapshot& now, Families& families) {
  for (const auto& [tenant, bytes] : now.live.memory) {
    families.gauge("sluice_memory_bytes", "Memory held, by tenant of the budget", real(bytes),
                   {{"tenant", tenant}});
  }
  for (const auto& [tenant, bytes] : now.engine.memory) {
    families.gauge("sluice_memory_most_bytes", "Most memory held so far, by tenant of the budget",
                   real(bytes), {{"tenant", tenant}});
  }
  families.gauge("sluice_memory_budget_bytes", "The ceiling", real(now.engine.ram_budget_bytes));
  families.gauge("sluice_memory_resident_bytes", "Resident memory of the process",
                 real(now.live.resident_bytes));
  families.gauge("sluice_memory_peak_bytes", "Highest resident memory of the process",
                 real(now.engine.peak_rss_bytes));
}

void add_experts(const engine::LiveStatistics& live, Families& families) {
  families.counter("sluice_expert_hits_total", "Picked experts found in memory",
                   real(live.expert_hits));
  families.counter("sluice_expert_misses_total", "Picked experts read from a drive",
                   real(live.expert_misses));
  families.gauge("sluice_expert_hit_rate", "Share of picked experts found in memory, since start",
                 live.expert_hit_rate());
}

void add_adapters(const engine::AdapterStatistics& adapters, Families& families) {
  families.counter("sluice_adapter_loads_total", "Adapters read from a drive, each whole",
                   real(adapters.loads));
  families.counter("sluice_adapter_evictions_total", "Adapters dropped for the sake of others",
                   real(adapters.evictions));
}

void add_passes(const engine::Statistics& engine, Families& families) {
  families.counter("sluice_pass_seconds_total", "Time inside passes through the model",
                   engine.wall_s);
  families.counter("sluice_io_wait_seconds_total",
                   "Time of passes with nothing to compute because bytes were missing",
                   engine.io_wait_s);
  families.gauge("sluice_io_wait_share", "Share of pass time spent waiting for bytes, since start",
                 engine.wall_s > 0 ? engine.io_wait_s / engine.wall_s : 0);
}

}  // namespace

struct Metrics::Parts {
  prometheus::Registry registry;
  prometheus::Family<Counter>* requests = nullptr;
  Counter* refused = nullptr;
  Counter* left = nullptr;
  Counter* prompt_tokens = nullptr;
  Counter* cached_tokens = nullptr;
  Counter* written_tokens = nullptr;
  Histogram* first_token = nullptr;
  Histogram* next_token = nullptr;

  Counter& counter(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
  Histogram& histogram(const char* name, const char* help) {
    return BuildHistogram().Name(name).Help(help).Register(registry).Add({}, kSeconds);
  }
};

Metrics::Metrics() : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  p.requests = &BuildCounter()
                    .Name("sluice_http_requests_total")
                    .Help("Responses, by route and status")
                    .Register(p.registry);
  p.refused = &p.counter("sluice_queue_refused_total", "Requests refused because of a full queue");
  p.left =
      &p.counter("sluice_clients_left_total", "Clients that left before their answer was whole");
  p.prompt_tokens = &p.counter("sluice_prompt_tokens_total", "Tokens of prompts");
  p.cached_tokens =
      &p.counter("sluice_cached_tokens_total", "Tokens of prompts known from earlier requests");
  p.written_tokens = &p.counter("sluice_generated_tokens_total", "Tokens written");
  p.first_token = &p.histogram("sluice_time_to_first_token_seconds",
                               "From a request to its first token, waiting included");
  p.next_token = &p.histogram("sluice_inter_token_seconds", "From a token to the next");
}

Metrics::~Metrics() = default;

void Metrics::count_request(std::string_view route, int status) {
  parts_->requests->Add({{"route", std::string(route)}, {"status", std::to_string(status)}})
      .Increment();
}
void Metrics::count_refused() const { parts_->refused->Increment(); }
void Metrics::count_left() const { parts_->left->Increment(); }
void Metrics::observe_first_token(double seconds) const { parts_->first_token->Observe(seconds); }
void Metrics::observe_next_token(double seconds) const { parts_->next_token->Observe(seconds); }
void Metrics::count_tokens(std::size_t prompt, std::size_t cached, std::size_t written) const {
  parts_->prompt_tokens->Increment(real(prompt));
  parts_->cached_tokens->Increment(real(cached));
  parts_->written_tokens->Increment(real(written));
}

std::string Metrics::text(const MetricsSnapshot& now, const std::vector<DriveLimit>& limits) const {
  std::vector<MetricFamily> families = parts_->registry.Collect();
  Families read;
  read.gauge("sluice_queue_length", "Requests that wait", real(now.queued));
  read.gauge("sluice_queue_limit", "Requests that may wait", real(now.queue_limit));
  read.gauge("sluice_running", "1 while a request is computed", now.running ? 1 : 0);
  read.gauge("sluice_saved_states", "Conversations kept in memory", real(now.saved_states));
  read.gauge("sluice_saved_state_bytes", "Memory of these", real(now.saved_state_bytes));
  read.gauge("sluice_saved_on_disk_bytes", "Conversations and unfinished answers on disk",
             real(now.saved_on_disk_bytes));
  read.counter("sluice_saved_written_bytes_total",
               "Bytes of conversations and unfinished answers written to disk",
               real(now.saved_written_bytes));
  add_reads(now.live.reads, read);
  add_drive_limits(now.live.reads, limits, read);
  add_drive_temperatures(now.engine, read);
  add_token_times(now.engine, read);
  add_adapters(now.engine.adapters, read);
  add_experts(now.live, read);
  add_passes(now.engine, read);
  add_memory(now, read);
  for (MetricFamily& family : read.take()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace sluice::server
