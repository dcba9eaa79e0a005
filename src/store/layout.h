// Whether the spans of a file's tensors fit together and fill its data, no more and no less.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "store/faults.h"

namespace sluice::store {

/// Bytes [begin, end) of the data part of a file; `tensor` is the caller's number for it.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t tensor = 0;
};

/// Where the data part lies: it begins at `start` of a file of `file_bytes` >= start.
struct DataPart {
  std::uint64_t start = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes() const { return file_bytes - start; }
};

/// Finds overlaps, holes, and a file that is shorter or longer than its tensors. Spans may come in
/// any order (and are sorted here); empty ones take no room and may stand anywhere. With `complete`
/// false some spans are missing, so holes say nothing. `name_of` names a tensor for messages.
void check_layout(std::vector<Span>& spans, DataPart data, bool complete, std::string_view file,
                  FunctionRef<std::string(std::uint32_t)> name_of, FaultList& faults);

}  // namespace sluice::store
