#include "text/compose.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

namespace sluice::text {

Result<std::string> compose(std::string_view utf8) {
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(utf8.data()),
                   static_cast<utf8proc_ssize_t>(utf8.size()), &raw,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> text(raw, &std::free);
  if (size < 0) {
    return fail(size == UTF8PROC_ERROR_NOMEM ? ErrorKind::memory : ErrorKind::usage,
                "the text cannot be normalized: {}", utf8proc_errmsg(size));
  }
  return std::string(reinterpret_cast<const char*>(text.get()), static_cast<std::size_t>(size));
}

}  // namespace sluice::text
