#include "model/windows.h"

#include <fmt/format.h>

#include "model/config_limits.h"

namespace sluice::model {

std::vector<std::size_t> read_windows(Fields& fields, std::size_t layers, std::size_t absent,
                                      FunctionRef<bool(std::size_t layer)> is_local) {
  const std::uint64_t window = fields.count_or("sliding_window", absent, 1, kMostPositions);
  std::vector<std::size_t> windows(layers, 0);
  if (!fields.has("layer_types")) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      if (is_local(layer)) windows[layer] = window;
    }
    fields.ignore({"layer_types"});
    return windows;
  }
  const std::vector<std::string> types = fields.texts("layer_types");
  if (types.size() != layers) {
    fields.fault("layer_types", fmt::format("has {} entries for {} layers", types.size(), layers));
    return windows;
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (types[layer] == "sliding_attention" && window > 0) {
      windows[layer] = window;
    } else if (types[layer] != "full_attention") {
      fields.fault("layer_types",
                   fmt::format("layer {}: '{}' is not supported, only full_attention and, with a "
                               "sliding_window, sliding_attention",
                               layer, types[layer].substr(0, 40)));
      break;
    }
  }
  return windows;
}

std::string attention_kind(std::size_t window) {
  return window == 0 ? "GQA" : fmt::format("GQA of {}", window);
}

}  // namespace sluice::model
