#include "engine/statistics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/size.h"

namespace sluice::engine {
namespace {

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

double gb_per_s(const io::DriveStatistics& drive) {
  return drive.busy_s > 0 ? static_cast<double>(drive.bytes) / drive.busy_s / 1e9 : 0;
}

double middle(const Range& range) { return (range.low + range.high) / 2; }

std::string beside(double measured, const Range& predicted, bool is_predicted) {
  std::string text = fmt::format("{:.3f} s", measured);
  if (!is_predicted) return text;
  return text + fmt::format(", predicted {:.3f} to {:.3f}", predicted.low, predicted.high);
}

/// "41 C", or "" where it is not known.
std::string temperature_text(const Statistics& s, std::size_t drive) {
  if (drive >= s.drive_temperatures.size() || !s.drive_temperatures[drive]) return "";
  return fmt::format(", {:.0f} C", *s.drive_temperatures[drive]);
}

std::string text_of(const io::DriveStatistics& drive) {
  std::string text =
      fmt::format("{}: {} in {:.3f} s busy, {:.2f} GB/s, {}", drive.path, format_size(drive.bytes),
                  drive.busy_s, gb_per_s(drive), drive.direct ? "direct" : "buffered");
  if (drive.queue_depth > 0) text += fmt::format(", {} reads at a time", drive.queue_depth);
  if (drive.faults > 0) text += fmt::format(", {} reads FAILED", drive.faults);
  return text;
}

nlohmann::ordered_json json_of(const Statistics& s, std::size_t index) {
  const io::DriveStatistics& drive = s.reads.drives[index];
  nlohmann::ordered_json json = {
      {"path", drive.path},
      {"bytes", drive.bytes},
      {"bytes_needed", drive.bytes_by_priority[static_cast<std::size_t>(io::Priority::needed)]},
      {"bytes_read_ahead",
       drive.bytes_by_priority[static_cast<std::size_t>(io::Priority::read_ahead)]},
      {"bytes_guessed", drive.bytes_by_priority[static_cast<std::size_t>(io::Priority::guess)]},
      {"busy_s", drive.busy_s},
      {"gb_per_s", gb_per_s(drive)},
      {"direct", drive.direct},
      {"failed_reads", drive.faults},
      {"queue_depth", nullptr},
      {"temperature_c", nullptr}};
  if (drive.queue_depth > 0) json["queue_depth"] = drive.queue_depth;
  if (index < s.drive_temperatures.size() && s.drive_temperatures[index]) {
    json["temperature_c"] = *s.drive_temperatures[index];
  }
  return json;
}

}  // namespace

std::string to_table(const Statistics& s) {
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<22}{}\n", name, value);
  };
  line("prompt", fmt::format("{} tokens, {:.2f} tokens/s", s.tokens.prompt_tokens,
                             s.tokens.prefill_tokens_per_s()));
  if (s.tokens.ttft_s > 0) {
    line("time to first token", beside(s.tokens.ttft_s, s.prediction.ttft_s, s.predicts_ttft));
  }
  line("decode", fmt::format("{} tokens, {:.2f} tokens/s", s.tokens.generated_tokens,
                             s.tokens.decode_tokens_per_s()));
  if (s.predicts_decode) {
    line("seconds per token", beside(s.tokens.s_per_token(), s.prediction.seconds, true) +
                                  fmt::format("; limit: {}", name_of(s.prediction.token.limit())));
  } else if (s.tokens.decoded_tokens > 0) {
    line("seconds per token", fmt::format("{:.3f} s", s.tokens.s_per_token()));
  }
  if (s.tokens.drafted_tokens > 0) {
    line("drafts", fmt::format("{} tokens, {} of them right ({:.0f} %)", s.tokens.drafted_tokens,
                               s.tokens.accepted_drafts,
                               share(static_cast<double>(s.tokens.accepted_drafts),
                                     static_cast<double>(s.tokens.drafted_tokens))));
  }
  line("wall", fmt::format("{:.3f} s: {:.0f} % arithmetic, {:.0f} % I/O wait", s.wall_s,
                           share(s.compute_s(), s.wall_s), share(s.io_wait_s, s.wall_s)));
  line("bytes read", fmt::format("{}: trunk {}, experts {}, other {}", format_size(s.bytes_read()),
                                 format_size(s.bytes_of(io::Purpose::trunk)),
                                 format_size(s.bytes_of(io::Purpose::expert)),
                                 format_size(s.bytes_of(io::Purpose::other))));
  line("", fmt::format("needed {}, read ahead {}, guessed and used {}, guessed in vain {}",
                       format_size(s.bytes_needed()), format_size(s.bytes_read_ahead()),
                       format_size(s.bytes_guessed_used()), format_size(s.bytes_guessed_wasted())));
  line("from the drives",
       fmt::format("{}; {} by the kernel's count", format_size(s.bytes_from_drives()),
                   s.storage_bytes ? format_size(*s.storage_bytes) : "unknown"));
  line("expert hit rate",
       fmt::format("{:.1f} % of {}", 100 * s.expert_hit_rate(), s.expert_hits + s.expert_misses));
  if (s.adapters.loads > 0) {
    line("adapters", fmt::format("{} loaded, {}; {} dropped for others", s.adapters.loads,
                                 format_size(s.adapters.bytes_read), s.adapters.evictions));
  }
  for (std::size_t i = 0; i < s.reads.drives.size(); ++i) {
    line("drive", text_of(s.reads.drives[i]) + temperature_text(s, i));
  }
  line("memory", fmt::format("peak {} of {} allowed", format_size(s.peak_rss_bytes),
                             format_size(s.ram_budget_bytes)));
  if (s.most_gone_bytes > 0) {
    line("memory was short",
         fmt::format("{} given back at the most, {} at the end", format_size(s.most_gone_bytes),
                     format_size(s.gone_bytes)));
  }
  for (const auto& [tenant, bytes] : s.memory) {
    if (bytes > 0) line("", fmt::format("{:<20}{}", tenant, format_size(bytes)));
  }
  return out;
}

std::string to_json(const Statistics& s) {
  nlohmann::ordered_json json = {
      {"prompt_tokens", s.tokens.prompt_tokens},
      {"generated_tokens", s.tokens.generated_tokens},
      {"ttft_s", s.tokens.ttft_s},
      {"prefill_tokens_per_s", s.tokens.prefill_tokens_per_s()},
      {"decode_tokens_per_s", s.tokens.decode_tokens_per_s()},
      {"drafted_tokens", s.tokens.drafted_tokens},
      {"accepted_drafts", s.tokens.accepted_drafts},
      {"wall_s", s.wall_s},
      {"compute_s", s.compute_s()},
      {"io_wait_s", s.io_wait_s},
      {"bytes_read", s.bytes_read()},
      {"bytes_read_trunk", s.bytes_of(io::Purpose::trunk)},
      {"bytes_read_experts", s.bytes_of(io::Purpose::expert)},
      {"bytes_needed", s.bytes_needed()},
      {"bytes_read_ahead", s.bytes_read_ahead()},
      {"bytes_guessed_used", s.bytes_guessed_used()},
      {"bytes_guessed_wasted", s.bytes_guessed_wasted()},
      {"bytes_from_drives", s.bytes_from_drives()},
      {"storage_bytes", nullptr},
      {"expert_hits", s.expert_hits},
      {"expert_misses", s.expert_misses},
      {"expert_hit_rate", s.expert_hit_rate()},
      {"adapter_loads", s.adapters.loads},
      {"adapter_evictions", s.adapters.evictions},
      {"bytes_read_adapters", s.adapters.bytes_read},
      {"peak_rss_bytes", s.peak_rss_bytes},
      {"ram_budget_bytes", s.ram_budget_bytes},
      {"resident_bytes", s.resident_bytes},
      {"given_back_bytes", s.gone_bytes},
      {"most_given_back_bytes", s.most_gone_bytes},
  };
  if (s.tokens.decoded_tokens > 0) json["s_per_token"] = s.tokens.s_per_token();
  if (s.predicts_decode) {
    json["predicted_s_per_token"] = middle(s.prediction.seconds);
    json["predicted_s_per_token_range"] = {s.prediction.seconds.low, s.prediction.seconds.high};
    json["predicted_limit"] = name_of(s.prediction.token.limit());
  }
  if (s.predicts_ttft) {
    json["predicted_ttft_s"] = middle(s.prediction.ttft_s);
    json["predicted_ttft_s_range"] = {s.prediction.ttft_s.low, s.prediction.ttft_s.high};
  }
  if (s.storage_bytes) json["storage_bytes"] = *s.storage_bytes;
  auto& drives = json["drives"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < s.reads.drives.size(); ++i) drives.push_back(json_of(s, i));
  auto& memory = json["memory"] = nlohmann::ordered_json::object();
  for (const auto& [tenant, bytes] : s.memory) memory[tenant] = bytes;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::engine
