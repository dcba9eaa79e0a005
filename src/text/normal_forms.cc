#include "text/normal_forms.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

namespace sluice::text {

Result<std::string> in_normal_form(NormalForm form, std::string_view utf8) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
      (compatible ? UTF8PROC_COMPAT : 0));
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(utf8.data()),
                   static_cast<utf8proc_ssize_t>(utf8.size()), &raw, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> text(raw, &std::free);
  if (size < 0) {
    return fail(size == UTF8PROC_ERROR_NOMEM ? ErrorKind::memory : ErrorKind::usage,
                "the text cannot be normalized: {}", utf8proc_errmsg(size));
  }
  return std::string(reinterpret_cast<const char*>(text.get()), static_cast<std::size_t>(size));
}

}  // namespace sluice::text
