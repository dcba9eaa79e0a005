// A model that can be run: what the engine sees of every architecture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/check.h"
#include "base/function_ref.h"
#include "base/ledger.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "io/reader.h"
#include "model/blueprint.h"
#include "model/vectors.h"
#include "weights/expert_banks.h"
#include "weights/trunk_stream.h"

namespace sluice::model {

class Adapter;

/// The sizes of a model, for people and for the engine's buffers.
struct Shape {
  std::string architecture;  ///< "kimi_k3"
  std::size_t layers = 0;
  std::size_t hidden = 0;
  std::size_t vocabulary = 0;
  std::size_t experts = 0;  ///< per layer that has them; 0: a dense model
  std::size_t top_k = 0;
  std::size_t max_positions = 0;
  std::vector<std::int32_t> end_ids;
  std::vector<std::string> layer_kinds;  ///< by layer: "KDA, dense", "MLA, MoE", ...
};

/// What one sequence keeps between passes: recurrent state and KV cache. Fixed size from the
/// start: `context` positions are paid for when it is made.
class SequenceState {
 public:
  virtual ~SequenceState() = default;
  std::size_t length() const { return length_; }
  /// Which of the caller's adapters its positions are computed with; 0: none. Stays when the
  /// sequence is emptied, and is not a part of what save() writes.
  std::uint32_t adapter() const { return adapter_; }
  /// Only of an empty sequence.
  void adapt(std::uint32_t adapter) {
    SLUICE_CHECK(length_ == 0);
    adapter_ = adapter;
  }
  std::size_t context() const { return context_; }
  /// Back to an empty sequence.
  virtual void reset() = 0;
  /// The pass that appended `positions` is done.
  void advance(std::size_t positions) { length_ += positions; }

  /// Bytes that save() writes now: a header, and what the positions held fill, not the context.
  std::uint64_t saved_bytes() const;
  /// Writes the sequence into `room`, of saved_bytes() bytes.
  void save(std::span<std::byte> room) const;
  /// Becomes the sequence that was saved, bit for bit. Fails with ErrorKind::usage, and is empty
  /// then, if the bytes are not whole, come from a network of another layout, or hold more
  /// positions than the context. That they come from the same weights is the caller's to know.
  Status load(std::span<const std::byte> saved);

  /// The bytes that save() writes, piece by piece, to whatever takes them, up to its first error.
  Status write(FunctionRef<Status(std::span<const std::byte> piece)> sink) const;
  /// What load() does, of `bytes` bytes that `source` fills in piece by piece. Its first error ends
  /// it, and the sequence is empty then.
  Status read(std::uint64_t bytes, FunctionRef<Status(std::span<std::byte> piece)> source);

 protected:
  explicit SequenceState(std::size_t context) : context_(context) {}
  /// The memory that `length` positions fill, piece after piece, always in the same order.
  virtual void for_each_piece(std::size_t length,
                              FunctionRef<void(std::span<std::byte> piece)> visit) const = 0;
  std::size_t length_ = 0;
  std::size_t context_;

 private:
  std::uint32_t adapter_ = 0;
  std::uint64_t layout(std::uint64_t positions) const;
  Result<std::size_t> read_head(std::uint64_t bytes,
                                FunctionRef<Status(std::span<std::byte> piece)> source) const;
};

/// Which positions of a segment need logits.
enum class Logits : std::uint8_t { none, last, all };

/// Consecutive tokens of one sequence; they are appended to its state.
struct Segment {
  SequenceState* state = nullptr;
  std::span<const std::int32_t> tokens;
  Logits logits = Logits::last;
  const Adapter* adapter = nullptr;  ///< that its rows are computed with; may be null
  /// So many of the tokens are drafts: computed like others, but not appended before
  /// Network::accept(). At most kMostDrafts, behind one other token, in a pass of this segment
  /// alone.
  std::size_t drafts = 0;
};

/// More gain nothing: the chance that all of them are right is gone long before.
inline constexpr std::size_t kMostDrafts = 32;

/// Watches a pass. All calls come from the pass's thread.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void on_layer_begin(std::size_t layer) { static_cast<void>(layer); }
  /// hidden: [positions, hidden], the running sum after the layer.
  virtual void on_hidden(std::size_t layer, std::span<const float> hidden) {
    static_cast<void>(layer);
    static_cast<void>(hidden);
  }
  /// ids: [positions, top_k], by descending choice.
  virtual void on_routes(std::size_t layer, std::span<const std::int32_t> ids) {
    static_cast<void>(layer);
    static_cast<void>(ids);
  }
};

/// A set of rows through all layers: decode, prefill and batch are the same thing.
struct Pass {
  std::span<const Segment> segments;
  PassObserver* observer = nullptr;
  const Cancellation* cancellation = nullptr;
};

/// What a network computes with; all outlive it.
struct Resources {
  ThreadPool& threads;
  io::Reader& reader;
  weights::TrunkStream& trunk;
  weights::ExpertBanks& experts;
  MemoryLedger& ledger;
  Trace* trace = nullptr;     ///< where to write down what is computed when; may be null
  std::size_t lookahead = 0;  ///< experts of the next layer that are guessed; changes no result
};

/// How much a network must be ready for at once.
struct PassLimits {
  std::size_t positions = 1;     ///< of a pass, all segments together
  std::size_t logit_rows = 1;    ///< of a pass
  std::size_t context = 1;       ///< of a sequence
  std::size_t adapter_rank = 0;  ///< of adapters at most; 0: there are none
  std::size_t drafts = 0;        ///< of a pass, beside one other position
};

/// A network with its weights behind it.
class Network {
 public:
  virtual ~Network() = default;

  virtual Result<std::unique_ptr<SequenceState>> new_state(std::size_t context) = 0;

  /// Runs the pass and returns the logits, [rows wanted, vocabulary], in order of segments and
  /// positions, valid until the next pass. On an error the states of the segments are undefined
  /// (reset them), but for one with drafts, which is as it was; the network itself can go on.
  virtual Result<std::span<const float>> run(const Pass& pass) = 0;

  /// Appends the next `count` drafts of the last pass to its sequence, which is afterwards, bit for
  /// bit, as if they had been fed. Nothing may have happened to the sequence since that pass but
  /// this. The logits stay valid.
  virtual void accept(std::size_t count) = 0;

  /// Time that passes waited for bytes, in seconds.
  virtual double io_wait_s() const = 0;
};

/// An architecture bound to a checkpoint, before memory is given to it.
class Architecture {
 public:
  virtual ~Architecture() = default;
  virtual const Shape& shape() const = 0;
  virtual const Blueprint& blueprint() const = 0;
  /// From now on keys, values and latents are cached so: a format of is_cache_format(). Without
  /// this in F32, which alone changes no result.
  virtual void cache_as(kernels::WeightFormat format) = 0;
  /// Memory of one sequence's state with room for `context` positions, in bytes.
  virtual std::uint64_t state_bytes(std::size_t context) const = 0;
  /// Memory of the activations of passes within the limits, in bytes (`threads` workers).
  virtual std::uint64_t activation_bytes(const PassLimits& limits, int threads) const = 0;
  /// Makes the network ready to run passes within the limits. The architecture must outlive it.
  virtual Result<std::unique_ptr<Network>> make_network(const Resources& resources,
                                                        const PassLimits& limits,
                                                        VectorTable vectors) const = 0;
};

}  // namespace sluice::model
