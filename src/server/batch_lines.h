// Lines of batches, as files have them: requests going in, results coming out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "text/json.h"

namespace sluice::server {

struct BatchLine {
  std::string custom_id;
  std::string url;
  text::Json body;
};

/// One request. `where` names the line in messages.
ApiResult<BatchLine> read_batch_line(std::string_view line, const std::string& where,
                                     std::size_t most_values);

/// Calls take(line, number) for each line that is not blank; stops at the first error.
template <class Take>
ApiStatus for_each_line(std::string_view text, Take take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (ApiStatus taken = take(line, number); !taken) return taken;
  }
  return {};
}

/// The "id" of a result.
std::string result_id(const std::string& id);

/// One result with its line end. `body`: the answer or an error object, as a line of JSON.
std::string batch_result(const std::string& id, const std::string& custom_id, int status,
                         const std::string& body);

}  // namespace sluice::server
