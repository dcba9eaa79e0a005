// K3's conversation format, "XTML" (SPEC 10).
#pragma once

#include <vector>

#include "base/result.h"
#include "text/chat.h"

namespace sluice::text {

/// ChatFormat::render() for Kind::kimi_k3.
Result<std::vector<Segment>> render_k3(const ChatRequest& request);

/// An attribute's value as it is written between quotes, and back.
std::string escape_attribute(std::string_view value);
std::string unescape_attribute(std::string_view written);

}  // namespace sluice::text
