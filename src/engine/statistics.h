// What a run did, in the terms of the contract of --stats-json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "engine/adapter_pool.h"
#include "engine/plan.h"
#include "io/reader.h"

namespace sluice::engine {

/// Tokens and their times, counted by generate().
struct TokenCounts {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  double ttft_s = 0;  ///< from the start of the last prompt to its first token
  double prefill_s = 0;
  double decode_s = 0;
  std::uint64_t decoded_tokens = 0;      ///< fed after the prompt, in decode_s
  std::uint64_t drafted_tokens = 0;      ///< guessed, and fed behind others
  std::uint64_t accepted_drafts = 0;     ///< of them, right: these cost no pass of their own
  std::uint64_t last_prompt_tokens = 0;  ///< of the prompt that ttft_s is of

  double prefill_tokens_per_s() const {
    return prefill_s > 0 ? static_cast<double>(prompt_tokens) / prefill_s : 0;
  }
  double s_per_token() const {
    return decoded_tokens > 0 ? decode_s / static_cast<double>(decoded_tokens) : 0;
  }
  double decode_tokens_per_s() const {
    return decode_s > 0 ? static_cast<double>(decoded_tokens) / decode_s : 0;
  }
};

/// Share of hits, 0 when there was nothing to hit.
inline double hit_rate(std::uint64_t hits, std::uint64_t misses) {
  const std::uint64_t all = hits + misses;
  return all > 0 ? static_cast<double>(hits) / static_cast<double>(all) : 0;
}

struct Statistics {
  TokenCounts tokens;
  double wall_s = 0;     ///< inside passes
  double io_wait_s = 0;  ///< of it, with nothing to compute because bytes were missing
  std::uint64_t expert_hits = 0;
  std::uint64_t expert_misses = 0;
  std::uint64_t guessed_bytes = 0;       ///< read for experts that nobody had asked for yet
  std::uint64_t guessed_bytes_used = 0;  ///< of them, for experts that were asked for later
  AdapterStatistics adapters = {};
  std::uint64_t gone_bytes = 0;       ///< of the weights' room, given back under memory pressure
  std::uint64_t most_gone_bytes = 0;  ///< the most of them at once
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t ram_budget_bytes = 0;
  std::uint64_t resident_bytes = 0;  ///< weights that stay: trunk tiles and expert banks
  std::vector<std::pair<std::string, std::uint64_t>> memory;  ///< by tenant, the most it held
  io::ReaderStatistics reads;
  /// The plan's formula with the speeds that this run's own drives and arithmetic showed: what
  /// perfect overlap would have taken (lower end) and what was to be expected at most.
  Prediction prediction;
  bool predicts_decode = false;                                ///< tokens were decoded, undrafted
  bool predicts_ttft = false;                                  ///< a prompt was answered
  std::vector<std::optional<double>> drive_temperatures = {};  ///< of reads.drives, in Celsius
  /// Bytes from block devices as the kernel counts them. Direct reads are in it to the byte; what
  /// goes through the page cache (mmap, file systems without direct I/O) only as far as it was not
  /// there yet, and with what the kernel read ahead.
  std::optional<std::uint64_t> storage_bytes = {};

  double compute_s() const { return wall_s - io_wait_s; }
  double expert_hit_rate() const { return hit_rate(expert_hits, expert_misses); }
  std::uint64_t bytes_of(io::Purpose purpose) const {
    return reads.requested_bytes[static_cast<std::size_t>(purpose)];
  }
  /// Every byte that was read is of one class: asked for ahead of its use (the trunk), guessed, or
  /// needed at once.
  std::uint64_t bytes_read_ahead() const { return bytes_of(io::Purpose::trunk); }
  std::uint64_t bytes_guessed_used() const { return guessed_bytes_used; }
  std::uint64_t bytes_guessed_wasted() const { return guessed_bytes - guessed_bytes_used; }
  std::uint64_t bytes_needed() const { return bytes_read() - bytes_read_ahead() - guessed_bytes; }
  std::uint64_t bytes_of(io::Priority priority) const {
    return reads.delivered_bytes[static_cast<std::size_t>(priority)];
  }
  /// Bytes that came from the drives, alignment and lost reads included.
  std::uint64_t bytes_from_drives() const {
    std::uint64_t sum = 0;
    for (const io::DriveStatistics& drive : reads.drives) sum += drive.bytes;
    return sum;
  }
  std::uint64_t bytes_read() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : reads.requested_bytes) sum += bytes;
    return sum;
  }
};

/// What can be seen while a pass runs, at this moment.
struct LiveStatistics {
  io::ReaderStatistics reads;
  std::uint64_t expert_hits = 0;
  std::uint64_t expert_misses = 0;
  std::uint64_t resident_bytes = 0;                           ///< of the process
  std::vector<std::pair<std::string, std::uint64_t>> memory;  ///< by tenant, held now

  double expert_hit_rate() const { return hit_rate(expert_hits, expert_misses); }
};

/// The table that --stats prints.
std::string to_table(const Statistics& statistics);

/// The object that --stats-json writes.
std::string to_json(const Statistics& statistics);

}  // namespace sluice::engine
