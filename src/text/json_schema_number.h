// The numbers that a JSON schema allows.
#pragma once

#include <string>

#include "base/result.h"
#include "text/grammar.h"
#include "text/json.h"

namespace sluice::text {

/// Of minimum, maximum, exclusiveMinimum and exclusiveMaximum. With any of them, numbers have at
/// most six digits behind the point, fewer if they are large. A double that is read from such a
/// text is in the range, too.
Result<NumberRange> number_range(const Json& schema, const std::string& path, bool whole);

}  // namespace sluice::text
