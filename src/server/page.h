// The page at /: a chat, and a view of the machine.
#pragma once

#include <string_view>

namespace sluice::server {

/// One HTML document with all that it needs.
std::string_view page();

}  // namespace sluice::server
