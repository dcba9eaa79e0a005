#include "server/metrics.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

MetricsSnapshot a_moment() {
  MetricsSnapshot now;
  io::DriveStatistics drive;
  drive.path = "/drive/\"K3\"";
  drive.device = 7;
  drive.bytes = 1000;
  drive.busy_s = 0.5;
  now.live.reads.drives = {drive, drive};
  now.live.reads.drives[1].path = "/other";
  now.live.reads.drives[1].device = 8;
  now.live.reads.requested_bytes[static_cast<std::size_t>(io::Purpose::expert)] = 900;
  now.live.expert_hits = 3;
  now.live.expert_misses = 1;
  now.live.resident_bytes = 77;
  now.live.memory = {{"ring", 5}};
  now.engine.reads = now.live.reads;
  now.engine.memory = {{"ring", 6}};
  now.engine.drive_temperatures = {41.0, std::nullopt};
  now.engine.adapters = {.loads = 5, .evictions = 2};
  now.engine.wall_s = 4;
  now.engine.io_wait_s = 1;
  now.engine.tokens.decode_s = 3;
  now.engine.tokens.decoded_tokens = 2;
  now.engine.tokens.drafted_tokens = 9;
  now.engine.tokens.accepted_drafts = 7;
  now.engine.prediction.seconds = {1.25, 2.5};
  now.engine.predicts_decode = true;
  now.queued = 2;
  now.saved_written_bytes = 99;
  return now;
}

TEST(Metrics, TellWhatTheDrivesAndTheEngineDo) {
  const Metrics metrics;
  const std::string text = metrics.text(a_moment(), {{7, 2.5e9}});
  for (const char* line : {
           "sluice_drive_read_bytes_total{drive=\"/drive/\\\"K3\\\"\"} 1000",
           "sluice_drive_read_bytes_total{drive=\"/other\"} 1000",
           "sluice_drive_busy_seconds_total{drive=\"/other\"} 0.5",
           "sluice_drive_limit_bytes_per_second{drive=\"/drive/\\\"K3\\\"\"} 2500000000",
           "sluice_drive_temperature_celsius{drive=\"/drive/\\\"K3\\\"\"} 41",
           "sluice_read_bytes_total{class=\"expert\"} 900",
           "sluice_read_bytes_total{class=\"trunk\"} 0",
           "sluice_expert_hit_rate 0.75",
           "sluice_adapter_loads_total 5",
           "sluice_adapter_evictions_total 2",
           "sluice_io_wait_share 0.25",
           "sluice_drafted_tokens_total 9",
           "sluice_accepted_drafts_total 7",
           "sluice_seconds_per_token 1.5",
           "sluice_predicted_seconds_per_token{end=\"low\"} 1.25",
           "sluice_predicted_seconds_per_token{end=\"high\"} 2.5",
           "sluice_memory_bytes{tenant=\"ring\"} 5",
           "sluice_memory_most_bytes{tenant=\"ring\"} 6",
           "sluice_memory_resident_bytes 77",
           "sluice_queue_length 2",
           "sluice_saved_written_bytes_total 99",
       }) {
    EXPECT_NE(text.find(std::string("\n") + line + "\n"), std::string::npos) << line << "\n"
                                                                             << text;
  }
  EXPECT_EQ(text.find("limit_bytes_per_second{drive=\"/other\"}"), std::string::npos);
  EXPECT_EQ(text.find("temperature_celsius{drive=\"/other\"}"), std::string::npos);
}

TEST(Metrics, EveryFamilyIsDescribedOnce) {
  const Metrics metrics;
  const std::string text = metrics.text(a_moment(), {{7, 2.5e9}, {8, 1e9}});
  std::size_t families = 0;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos; ++families) {
    const std::string line = text.substr(at, text.find(' ', at + 7) - at + 1);
    at += 7;
    EXPECT_EQ(text.find(line, at), std::string::npos) << line << "is there twice";
  }
  EXPECT_GT(families, 25u);
}

}  // namespace
}  // namespace sluice::server
