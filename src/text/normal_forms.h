// Unicode normalization.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// A valid UTF-8 text in a normalization form. ErrorKind::memory if there is none for it.
Result<std::string> in_normal_form(NormalForm form, std::string_view utf8);

}  // namespace sluice::text
