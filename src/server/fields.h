// A JSON object of a request, read field by field. What nobody asks for is refused: nothing that a
// client says is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "text/json.h"

namespace sluice::server {

using text::Json;

/// null counts as absent.
class Fields {
 public:
  /// `path` names the object in messages: "" for the request itself, or "tools[0].function".
  /// `object` must be an object, and outlive this.
  explicit Fields(const Json& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  /// The value of a field; nullptr if it is absent.
  const Json* get(std::string_view name);

  ApiResult<std::optional<double>> number(std::string_view name, double least, double most);
  ApiResult<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t least,
                                                 std::int64_t most);
  ApiResult<std::optional<bool>> boolean(std::string_view name);
  ApiResult<std::optional<std::string>> text(std::string_view name);
  /// A string or a list of at most `most` strings, as a list; none of them empty.
  ApiResult<std::vector<std::string>> texts(std::string_view name, std::size_t most);
  /// The field may only be one of these: they say what is done anyway.
  ApiStatus only(std::string_view name, std::initializer_list<Json> values);

  /// The field's full name.
  std::string name_of(std::string_view name) const;

  /// Refuses the first field that was not asked for.
  ApiStatus finish() const;

 private:
  const Json& object_;
  const std::string path_;
  std::set<std::string, std::less<>> known_;
};

/// Parses a request's body into an object. Names must be unique, nesting and the number of values
/// bounded.
ApiResult<Json> parse_body(std::string_view body, std::size_t most_values);

}  // namespace sluice::server
