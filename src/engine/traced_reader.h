// A reader that writes down what it reads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/trace.h"
#include "io/reader.h"

namespace sluice::engine {

/// What the bytes of a request are, for people: "layer 3, expert 17".
using BlockNamer = std::function<std::string(const io::ReadRequest& request)>;

/// Everything goes to `inner`; every read that ends is an event of `trace`, which must outlive the
/// reader.
class TracedReader : public io::Reader {
 public:
  /// Names blocks from now on; until then reads have the name of their purpose. Call it before
  /// requests with labels are submitted.
  virtual void name_blocks(BlockNamer namer) = 0;
};
std::unique_ptr<TracedReader> make_traced_reader(std::unique_ptr<io::Reader> inner, Trace& trace);

}  // namespace sluice::engine
