// The page at /: a chat, and a view of the machine. Its files are in page/, and in the program.
#pragma once

#include <optional>
#include <string_view>

namespace sluice::server {

struct PageFile {
  std::string_view type;  ///< as Content-Type has it
  std::string_view text;
};

/// "/", "/page.css" and "/page.js"; none for other paths.
std::optional<PageFile> page_file(std::string_view path);

}  // namespace sluice::server
