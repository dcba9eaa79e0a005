// multipart/form-data (RFC 7578), as clients send files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::server {

struct FormPart {
  std::string name;
  std::string file_name;  ///< empty for plain fields
  std::string_view content;
};

/// The parts of a body; their contents point into it. None if it is malformed.
std::optional<std::vector<FormPart>> parse_multipart(std::string_view content_type,
                                                     std::string_view body);

}  // namespace sluice::server
