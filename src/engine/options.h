// How an engine is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/pressure.h"
#include "io/make_reader.h"
#include "kernels/cache.h"

namespace sluice::engine {

/// A LoRA adapter in a folder, as Hugging Face's PEFT writes it.
struct AdapterSource {
  std::string name;
  std::filesystem::path folder;
};

struct EngineOptions {
  std::filesystem::path model;
  /// Searched for weight files too; what is found again there is a copy
  /// (store::Checkpoint::open()).
  std::vector<std::filesystem::path> model_folders = {};

  /// Ceiling of the process's resident memory, in bytes. Default: three quarters of what the
  /// machine and the control group leave free.
  std::optional<std::uint64_t> ram;

  int threads = 0;  ///< 0: as many as the process may use
  io::IoMode io = io::IoMode::automatic;
  std::optional<std::uint64_t> read_bytes =
      {};                               ///< of one read at most (ReaderOptions::piece_bytes)
  std::optional<int> queue_depth = {};  ///< reads under way per drive at most

  /// Positions per prefill pass. Default: as many as are worth their memory. No choice changes a
  /// bit of any result.
  std::optional<std::size_t> chunk;

  std::size_t context = 4096;  ///< positions that a sequence can hold
  /// The user asked for just this context: more than the model was made for is refused. Otherwise
  /// it is shortened to what the model can do.
  bool context_is_asked = false;
  /// Positions that will be fed to an empty sequence. Where the context has no room for them, that
  /// is said before anything about memory.
  std::size_t prompt = 0;
  /// How keys, values and latents are kept: f32, bf16 or q8_0. All but f32 round, and change
  /// results.
  kernels::WeightFormat cache_format = kernels::WeightFormat::f32;
  std::size_t sequences = 1;  ///< states that may exist at once
  std::uint64_t reserve = 0;  ///< bytes that the caller will hold itself (a server's threads)
  /// Bytes that the caller will charge for saved sequences. Less where that would leave too little
  /// for weights: options() of the engine has what there is.
  std::uint64_t saved_states = 0;
  /// Adapters that sequences may ask for, by their number here, counted from 1.
  std::vector<AdapterSource> adapters = {};
  /// Bytes for adapters in memory, at least the largest one's. Default: as many as fit into an
  /// eighth of what is left beside the smallest room for weights.
  std::optional<std::uint64_t> adapter_ram = {};
  bool identify = false;       ///< digest() of the engine will be asked for
  bool watch_experts = false;  ///< Engine::activity() will be asked
  /// The user asked for just this much: more than there is room for is refused.
  bool saved_states_are_asked = false;
  bool all_logits = false;  ///< logits of all positions will be asked for, not only of the last

  /// Room for the trunk on its way through, in bytes. Default: what keeps the drives busy.
  std::optional<std::uint64_t> ring;

  /// weights::ReadShape::trunk_share; to compare with.
  double trunk_share = 1;

  /// Experts of the next layer that are guessed and read ahead with idle drive time, while tokens
  /// are decoded; 0: none.
  std::size_t lookahead = kDefaultLookahead;
  static constexpr std::size_t kDefaultLookahead = 8;  ///< K3 picks 16

  /// Tokens that may be guessed and fed behind one in the same pass (FeedOptions::drafts), at most
  /// model::kMostDrafts; 0: none. Room for them is taken from the weights'. Changes no result.
  std::size_t drafts = 0;
  /// As many as pay (DraftJudge); otherwise always all, for tests, which must not depend on time.
  bool judges_drafts = true;

  /// The folder where it is remembered which experts a model uses; empty: nowhere.
  std::filesystem::path history;

  /// Watches memory instead of the system; for tests.
  std::function<std::unique_ptr<MemorySource>()> memory_source = nullptr;

  /// Where to write a Chrome trace of every read and every computation; empty: nowhere.
  std::filesystem::path trace;

  /// Puts something between the engine and its reader; for tests (fault injection).
  std::function<std::unique_ptr<io::Reader>(std::unique_ptr<io::Reader>)> wrap_reader = nullptr;
};

/// How the reader of such an engine is made.
io::ReaderOptions reader_options(const EngineOptions& options);

}  // namespace sluice::engine
