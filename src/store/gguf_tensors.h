// The tensors of a GGUF file: their entries in its header, read, checked and entered into the
// table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "store/gguf_cursor.h"
#include "store/tensor_table.h"

namespace sluice::store {

/// What is wrong with a tensor is a fault, and the others are read all the same.
class GgufTensors {
 public:
  /// All must outlive it. `files`: the names of the files entered so far, this one's last.
  /// `alignment`: of each tensor's data, in bytes.
  GgufTensors(GgufCursor& cursor, TensorTable& table, const std::vector<std::string>& files,
              std::uint64_t alignment)
      : cursor_(cursor), table_(table), files_(files), alignment_(alignment) {}

  /// Reads `number` entries from the cursor's place on, after which the data begins. Returns false
  /// when the header breaks off, which it has said then.
  bool read(std::uint64_t number);

 private:
  struct Place {
    std::uint64_t offset;
    std::uint64_t bytes;
    bool sound;
  };

  bool read_tensor(std::uint64_t index);
  void enter(std::uint64_t index, const std::string& name, std::uint32_t type, const Shape& shape,
             std::uint64_t place);
  void is_there_already(const std::string& name, std::uint32_t file);
  std::optional<DType> dtype_of(std::string_view name, std::uint32_t number);
  std::optional<std::uint64_t> bytes_of(std::string_view name, DType dtype, const Shape& shape);
  void check_extents();

  GgufCursor& cursor_;
  TensorTable& table_;
  const std::vector<std::string>& files_;
  std::uint64_t alignment_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> indices_;  // in the table, of places_
  bool sound_ = true;
};

}  // namespace sluice::store
