// The names of a model's tensors and where they lie, in about 40 bytes per tensor.
//
// The names of a big model are few patterns with numbers in them: K3 has 497,220 names and some
// hundred patterns. A name is kept as the id of its pattern ("layers.#.experts.#.w#.weight_scale")
// and up to four numbers; dtype and shape together are the id of a kind. 75 MB of headers become
// 20 MB.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/checkpoint.h"
#include "store/id_table.h"

namespace sluice::store {

/// A name, taken apart. Equal names have equal parts and the other way round.
struct NameParts {
  static constexpr std::size_t kNumbers = 4;
  static constexpr char kSlot = '\xFF';  ///< stands for a number; no byte of valid UTF-8

  std::string pattern;
  std::array<std::uint32_t, kNumbers> numbers{};

  /// `name` must not contain kSlot.
  void take_apart(std::string_view name);
  /// Writes the name to `to`.
  static void join(std::string_view pattern, const std::array<std::uint32_t, kNumbers>& numbers,
                   std::string& to);
};

/// Appended to while headers are read, then only read.
class TensorTable {
 public:
  TensorTable();

  /// Takes room for about this many tensors at once. Only while the table is empty.
  void reserve(std::uint32_t tensors);

  /// Tensors added from now on belong to the next file: 0, 1, 2, ...
  void begin_file();

  struct Added {
    std::uint32_t index;  ///< of the tensor with this name
    bool is_new;          ///< false: the name was there before, and nothing was added
  };
  /// `name` is valid UTF-8. `offset` counts from the start of the file. At most kMaxTensors.
  Added add(std::string_view name, DType dtype, const Shape& shape, std::uint64_t offset);
  static constexpr std::uint32_t kMaxTensors = IdTable::kMaxIds;

  /// Moves a tensor `bytes` to the back of its file.
  void move(std::uint32_t index, std::uint64_t bytes) { entries_[index].offset += bytes; }

  std::optional<std::uint32_t> find(std::string_view name) const;

  /// Finds many names, fastest when they come in the order of the table or its reverse.
  class Finder {
   public:
    explicit Finder(const TensorTable& table) : table_(table) {}
    std::optional<std::uint32_t> find(std::string_view name);

   private:
    const TensorTable& table_;
    NameParts parts_;
    std::uint32_t last_ = 0;  // found before: the next is mostly its neighbour
  };

  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  Tensor tensor(std::uint32_t index) const;
  std::uint32_t file_of(std::uint32_t index) const;
  std::string name(std::uint32_t index) const;
  void name(std::uint32_t index, std::string& to) const;

  /// Gives back memory that was taken ahead.
  void shrink();
  std::uint64_t memory_bytes() const;

 private:
  struct Entry {
    std::uint64_t offset;
    std::uint32_t pattern;
    std::uint32_t kind;
    std::array<std::uint32_t, NameParts::kNumbers> numbers;
  };
  struct Kind {
    Shape shape;
    DType dtype;
  };

  std::string_view pattern(std::uint32_t id) const;
  std::optional<std::uint32_t> find_pattern(std::string_view text) const;
  std::uint32_t pattern_id(std::string_view text);
  std::uint32_t kind_id(DType dtype, const Shape& shape);
  std::uint64_t hash_bytes(const void* data, std::size_t size) const;
  std::uint64_t hash_parts(std::uint32_t pattern,
                           const std::array<std::uint32_t, NameParts::kNumbers>& numbers) const;
  std::uint64_t hash_kind(const Kind& kind) const;
  bool has_parts(std::uint32_t index, std::uint32_t pattern, const NameParts& parts) const;
  std::optional<std::uint32_t> find_parts(std::uint64_t hash, std::uint32_t pattern,
                                          const NameParts& parts) const;

  std::uint64_t seed_;  // differs from run to run: no file can be made whose names all collide
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> file_starts_;  // index of the first tensor of each file
  IdTable by_name_;
  std::string pattern_text_;                 // all patterns, end to end
  std::vector<std::uint64_t> pattern_ends_;  // in pattern_text_
  IdTable by_pattern_;
  std::vector<Kind> kinds_;
  IdTable by_kind_;
  NameParts scratch_;
};

}  // namespace sluice::store
