// Unicode normalization.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::text {

/// A valid UTF-8 text in normalization form C. ErrorKind::memory if there is none for it.
Result<std::string> compose(std::string_view utf8);

}  // namespace sluice::text
