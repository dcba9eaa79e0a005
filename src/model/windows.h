// Which layers look back on a window of positions only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "model/fields.h"

namespace sluice::model {

/// By layer: how many positions one attends to, itself included; 0: all before it. Reads
/// sliding_window and layer_types; is_local(layer) tells where a config has no layer_types, and
/// `absent` is the window where it has no sliding_window (0: no layer has one).
std::vector<std::size_t> read_windows(Fields& fields, std::size_t layers, std::size_t absent,
                                      FunctionRef<bool(std::size_t layer)> is_local);

/// "GQA", or "GQA of 512" for a layer with a window: what people see of a layer's attention.
std::string attention_kind(std::size_t window);

}  // namespace sluice::model
