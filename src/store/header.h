// The header of a safetensors file (SPEC section 3): JSON, hostile until checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/function_ref.h"
#include "store/checkpoint.h"
#include "store/faults.h"
#include "store/text_file.h"

namespace sluice::store {

/// One entry of a header.
struct HeaderTensor {
  std::string_view name;  ///< valid during the visit
  DType dtype = DType::u8;
  Shape shape;
  std::uint64_t begin = 0;  ///< from the start of the data, which follows the header
  std::uint64_t end = 0;
  bool sound = false;  ///< all of the above was given, and the span fits dtype and shape
};

/// Product of the dimensions times the element's size; nothing when it exceeds 64 bits. The last
/// dimension is whole blocks of a type that has them.
std::optional<std::uint64_t> tensor_bytes(DType dtype, const Shape& shape);

/// Parses headers; keeps its memory from one to the next.
class HeaderParser {
 public:
  HeaderParser();
  ~HeaderParser();

  /// Visits every entry of the header in its order, the unsound ones included, and adds what is
  /// wrong with them to `faults`. Whether spans overlap or lie inside the file is not its business
  /// (layout.h). Returns false when the JSON broke off, so that entries may be missing. `file`
  /// names the file in messages.
  bool parse(const PaddedText& header, std::string_view file, FaultList& faults,
             FunctionRef<void(const HeaderTensor&)> visit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::store
