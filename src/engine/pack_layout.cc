#include "engine/pack_layout.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "base/check.h"
#include "store/checksum.h"

namespace sluice::engine {
namespace {

// Checksums cost 8 bytes of memory each, and a tile is never less than one group.
constexpr std::uint64_t kGroupBytes = std::uint64_t{64} << 10;

class LayoutMaker {
 public:
  LayoutMaker(const store::Checkpoint& checkpoint, std::span<const io::FileId> files,
              const model::Blueprint& blueprint)
      : blueprint_(blueprint), maker_(layout_.index), group_bytes_(kGroupBytes) {
    checkpoint.for_each([&](std::string_view name, const store::Tensor& tensor) {
      const std::uint64_t rows = tensor.shape.rank > 0 ? tensor.shape.size[0] : 1;
      tensors_.push_back({maker_.make(name, tensor.dtype, tensor.shape),
                          {files[tensor.file], tensor.offset, tensor.bytes},
                          rows,
                          false});
    });
    for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].from.length > 0) by_place_.push_back(i);
    }
    std::sort(by_place_.begin(), by_place_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return place(a) < place(b); });
    // A tile holds at least the rows that its matrix wants together, so a group may be as large.
    for (const weights::MatrixBlock& matrix : blueprint.blocks.matrices) {
      group_bytes_ = std::max(group_bytes_, matrix.row_bytes() * matrix.rows_together);
    }
  }

  PackLayout make() {
    const weights::Blocks& blocks = blueprint_.blocks;
    if (blueprint_.embedding.rows > 0) alone(blueprint_.embedding.extent, 1);
    for (const model::VectorSource& vector : blueprint_.vectors) alone(vector.extent, 0);
    const auto matrices = std::span(blocks.matrices);
    for (const auto& matrix : matrices.first(blocks.first_head_matrix)) add_matrix(matrix);
    for (std::size_t layer = 0; layer < blocks.expert_layers.size(); ++layer) {
      const weights::ExpertLayer& experts = blocks.expert_layers[layer];
      for (std::size_t expert = 0; expert < experts.experts.size(); ++expert) {
        add_expert(experts, layer, expert);
      }
    }
    for (const auto& matrix : matrices.subspan(blocks.first_head_matrix)) add_matrix(matrix);
    for (std::uint32_t i = 0; i < tensors_.size(); ++i) add_rest(i);
    return std::move(layout_);
  }

 private:
  struct Source {
    store::PackTensor record;
    io::Extent from;
    std::uint64_t rows;
    bool placed;
  };

  std::tuple<io::FileId, std::uint64_t> place(std::uint32_t tensor) const {
    return {tensors_[tensor].from.file, tensors_[tensor].from.offset};
  }

  std::uint32_t find(io::FileId file, std::uint64_t offset) const {
    const auto at = std::lower_bound(
        by_place_.begin(), by_place_.end(), std::tuple(file, offset),
        [&](std::uint32_t tensor, const auto& wanted) { return place(tensor) < wanted; });
    SLUICE_CHECK(at != by_place_.end() && place(*at) == std::tuple(file, offset));
    return *at;
  }

  void put(std::uint32_t tensor) {
    tensors_[tensor].placed = true;
    layout_.index.tensors.push_back(tensors_[tensor].record);
    layout_.sources.push_back(tensors_[tensor].from);
  }

  /// A block of one tensor, unless it has one already (an embedding that is the head as well).
  void alone(const io::Extent& extent, std::uint64_t unit_rows) {
    const std::uint32_t tensor = find(extent.file, extent.offset);
    if (tensors_[tensor].placed) return;
    put(tensor);
    layout_.index.blocks.push_back({1, static_cast<std::uint32_t>(unit_rows), -1, -1});
  }

  void add_matrix(const weights::MatrixBlock& matrix) {
    alone(matrix.extent, rows_of_group(matrix.row_bytes(), matrix.rows_together));
  }

  std::uint64_t rows_of_group(std::uint64_t row_bytes, std::uint64_t rows_together) const {
    const std::uint64_t groups =
        group_bytes_ / std::max<std::uint64_t>(1, row_bytes * rows_together);
    return std::max<std::uint64_t>(1, groups) * rows_together;
  }

  void add_expert(const weights::ExpertLayer& layer, std::size_t layer_index, std::size_t index) {
    const weights::ExpertPlace& expert = layer.experts[index];
    for (std::size_t part = 0; part < layer.parts; ++part) {
      put(find(expert.file[part], expert.offset[part]));
    }
    layout_.index.blocks.push_back({static_cast<std::uint32_t>(layer.parts), 0,
                                    static_cast<std::int32_t>(layer_index),
                                    static_cast<std::int32_t>(index)});
  }

  void add_rest(std::uint32_t tensor) {
    const Source& source = tensors_[tensor];
    if (source.placed) return;
    put(tensor);
    const std::uint64_t rows = std::max<std::uint64_t>(1, source.rows);
    const std::uint64_t unit = rows_of_group(source.from.length / rows, 1);
    layout_.index.blocks.push_back(
        {1, static_cast<std::uint32_t>(std::min<std::uint64_t>(unit, rows)), -1, -1});
  }

  const model::Blueprint& blueprint_;
  PackLayout layout_;
  store::PackTensorMaker maker_;
  std::uint64_t group_bytes_;
  std::vector<Source> tensors_;
  std::vector<std::uint32_t> by_place_;  // those with bytes, by file and offset
};

}  // namespace

PackLayout lay_out_pack(const store::Checkpoint& checkpoint, std::span<const io::FileId> files,
                        const model::Blueprint& blueprint) {
  return LayoutMaker(checkpoint, files, blueprint).make();
}

std::uint64_t pack_identity(const PackLayout& layout, std::size_t parts,
                            const store::Checkpoint& checkpoint) {
  store::Checksum sum;
  const auto add = [&](const void* data, std::size_t bytes) {
    sum.add({static_cast<const std::byte*>(data), bytes});
  };
  sum.add(store::encode_pack_index(layout.index));
  const std::uint64_t count = parts;
  add(&count, sizeof(count));
  for (const store::ShardFile& file : checkpoint.files()) {
    const std::string name = file.path.filename().string();
    std::error_code ignored;
    const auto time = std::filesystem::last_write_time(file.path, ignored).time_since_epoch();
    const std::uint64_t facts[2] = {file.size, static_cast<std::uint64_t>(time.count())};
    add(name.data(), name.size());
    add(facts, sizeof(facts));
  }
  return sum.take();
}

}  // namespace sluice::engine
