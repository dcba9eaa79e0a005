#include "store/layout.h"

#include <algorithm>
#include <string>

namespace sluice::store {
namespace {

using NameOf = FunctionRef<std::string(std::uint32_t)>;

bool before(const Span& a, const Span& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
}

/// The file is too short: one fault for all tensors that it cuts off.
void add_truncated(const std::vector<Span>& spans, DataPart data, std::uint64_t data_end,
                   std::string_view file, NameOf name_of, FaultList& faults) {
  const auto cut = [&](const Span& span) { return span.end > data.bytes(); };
  const auto first = std::find_if(spans.begin(), spans.end(), cut);
  const auto count = std::count_if(first, spans.end(), cut);
  const std::uint64_t missing = data_end - data.bytes();
  if (data_end > ~std::uint64_t{0} - data.start) {
    faults.add(file,
               "tensor {}: data_offsets [{}, {}]: expected an end of at most {}, the data in "
               "the file; the file is damaged, download it again",
               shown(name_of(first->tensor)), first->begin, first->end, data.bytes());
    return;
  }
  faults.add(file,
             "the file is too short: expected {} bytes by its header, found {}, missing {}; "
             "{} cut off, the first is {}; the download is incomplete, download the file again",
             data.start + data_end, data.file_bytes, missing,
             count == 1 ? "one tensor is" : fmt::format("{} tensors are", count),
             shown(name_of(first->tensor)));
}

}  // namespace

void check_layout(std::vector<Span>& spans, DataPart data, bool complete, std::string_view file,
                  NameOf name_of, FaultList& faults) {
  for (const Span& span : spans) {
    if (span.begin == span.end && span.end > data.bytes()) {
      faults.add(file,
                 "tensor {} is empty, but at {}: expected at most {}, the data in the file; "
                 "the file is damaged, download it again",
                 shown(name_of(span.tensor)), span.begin, data.bytes());
    }
  }
  std::erase_if(spans, [](const Span& span) { return span.begin == span.end; });
  if (!std::is_sorted(spans.begin(), spans.end(), before)) {
    std::sort(spans.begin(), spans.end(), before);
  }
  std::uint64_t filled = 0;    // the data up to here belongs to tensors
  const Span* last = nullptr;  // the one that reaches farthest
  for (const Span& span : spans) {
    if (span.begin < filled) {
      faults.add(file,
                 "tensor {} at [{}, {}] overlaps tensor {} at [{}, {}] of the data; "
                 "the file is damaged, download it again",
                 shown(name_of(span.tensor)), span.begin, span.end, shown(name_of(last->tensor)),
                 last->begin, last->end);
    } else if (span.begin > filled && complete) {
      faults.add(file,
                 "a hole of {} bytes at [{}, {}] of the data, before tensor {}: expected each "
                 "byte to belong to a tensor; the file is damaged, download it again",
                 span.begin - filled, filled, span.begin, shown(name_of(span.tensor)));
    }
    if (span.end > filled) {
      filled = span.end;
      last = &span;
    }
  }
  if (filled > data.bytes()) {
    add_truncated(spans, data, filled, file, name_of, faults);
  } else if (filled < data.bytes() && complete) {
    faults.add(file,
               "the file is too long: expected {} bytes by its header, found {}, {} too many; "
               "the file is damaged, download it again",
               data.start + filled, data.file_bytes, data.bytes() - filled);
  }
}

}  // namespace sluice::store
