#include "model/vectors.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/size.h"
#include "kernels/ops.h"

namespace sluice::model {
namespace {

// Small reads under way at once.
constexpr std::size_t kBatch = 16;

/// Collects a batch of small reads.
class Batch final : public io::CompletionSink {
 public:
  explicit Batch(io::Reader& reader) : reader_(reader) {}
  ~Batch() override {
    if (!is_whole()) reader_.cancel(*this);  // an exception: nothing may come here any more
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Reads all extents, each into its own part of `room`; returns their bytes by index.
  Result<std::span<const std::span<const std::byte>>> read(std::span<const io::Extent> extents,
                                                           std::span<std::byte> room) {
    bytes_.assign(extents.size(), {});
    error_.reset();
    left_ = extents.size();
    std::vector<io::ReadRequest> requests;
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const std::size_t size = round_up(reader_.room_for(extents[i].length), io::kRoomAlignment);
      SLUICE_CHECK(size <= room.size());
      requests.push_back(
          {extents[i], room.first(size), io::Priority::needed, io::Purpose::other, i, this});
      room = room.subspan(size);
    }
    reader_.submit(requests);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
    if (error_) return tl::unexpected(*error_);
    return std::span<const std::span<const std::byte>>(bytes_);
  }

  void complete(io::Completion completion) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (completion.bytes) {
      bytes_[completion.tag] = *completion.bytes;
    } else if (!error_) {
      error_ = std::move(completion.bytes).error();
    }
    if (--left_ == 0) done_.notify_all();
  }

 private:
  bool is_whole() {
    const std::scoped_lock lock(mutex_);
    return left_ == 0;
  }

  io::Reader& reader_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<std::span<const std::byte>> bytes_;
  std::optional<Error> error_;
  std::size_t left_ = 0;
};

}  // namespace

Result<VectorTable> VectorTable::load(const Blueprint& blueprint, io::Reader& reader,
                                      MemoryLedger& ledger) {
  VectorTable table;
  SLUICE_ASSIGN(table.room_,
                Buffer::allocate(blueprint.vector_floats * sizeof(float), Tenant::vectors, ledger));
  std::uint64_t longest = 0;
  for (const VectorSource& source : blueprint.vectors) {
    longest = std::max(longest, source.extent.length);
  }
  const std::uint64_t each = round_up(reader.room_for(longest), io::kRoomAlignment);
  SLUICE_ASSIGN(const Buffer room, Buffer::allocate(kBatch * each, Tenant::activations, ledger));
  Batch batch(reader);
  for (std::size_t first = 0; first < blueprint.vectors.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, blueprint.vectors.size() - first);
    const std::span sources = std::span(blueprint.vectors).subspan(first, count);
    std::vector<io::Extent> extents;
    for (const VectorSource& source : sources) extents.push_back(source.extent);
    SLUICE_ASSIGN(const auto bytes, batch.read(extents, room.bytes()));
    for (std::size_t i = 0; i < count; ++i) {
      const kernels::Rows row = {sources[i].format, bytes[i].data(), nullptr, 1,
                                 sources[i].vector.count};
      float* const out = table.room_.floats().data() + sources[i].vector.offset;
      kernels::decode_row(row, 0, out);
      // Looked at here: later a sigmoid, an exponential or a choice would swallow it.
      if (!kernels::all_finite(out, sources[i].vector.count)) {
        return fail(ErrorKind::number,
                    "tensor {} holds a number that is NaN or infinite; the weights are damaged: "
                    "check the file, or download its shard again",
                    sources[i].name);
      }
    }
  }
  return table;
}

void VectorTable::multiply(const Vector& into, const Vector& factor) {
  SLUICE_CHECK(into.count == factor.count);
  float* const to = room_.floats().data() + into.offset;
  const float* const by = room_.floats().data() + factor.offset;
  for (std::size_t i = 0; i < into.count; ++i) to[i] *= by[i];
}

void VectorTable::add(const Vector& to, float number) {
  for (float& element : room_.floats().subspan(to.offset, to.count)) element += number;
}

std::size_t embedding_room(const EmbeddingTable& table) {
  // The reader's rounding is at most two blocks of the largest size in use.
  return kBatch *
         round_up(table.extent.length / table.rows + 4 * io::kRoomAlignment, io::kRoomAlignment);
}

Status read_embedding(const EmbeddingTable& table, std::span<const std::int32_t> tokens,
                      io::Reader& reader, std::span<std::byte> room, float* out) {
  const std::uint64_t row_bytes = table.extent.length / table.rows;
  Batch batch(reader);
  for (std::size_t first = 0; first < tokens.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, tokens.size() - first);
    std::vector<io::Extent> extents;
    for (const std::int32_t token : tokens.subspan(first, count)) {
      extents.push_back({table.extent.file,
                         table.extent.offset + static_cast<std::uint64_t>(token) * row_bytes,
                         row_bytes});
    }
    SLUICE_ASSIGN(const auto bytes, batch.read(extents, room));
    for (std::size_t i = 0; i < count; ++i) {
      const kernels::Rows row = {table.format, bytes[i].data(), nullptr, 1, table.columns};
      kernels::decode_row(row, 0, out + (first + i) * table.columns);
    }
  }
  return {};
}

}  // namespace sluice::model
