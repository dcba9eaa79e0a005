// tokenizer.json: whatever it says, it makes a tokenizer that makes text of text, or an error.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

using namespace sluice;
using namespace sluice::text;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tokenizer =
      parse_tokenizer_json({reinterpret_cast<const char*>(data), size}, {}, "fuzz");
  if (!tokenizer) return 0;
  constexpr std::string_view kText = "It's 1893: caf\xC3\xA9 \xF0\x9F\x99\x82\n\n  <|end|> end";
  const auto ids = tokenizer->encode(kText, Tokenizer::Special::as_text);
  if (!ids) return 0;
  const std::int32_t unknown = tokenizer->special_id("<unk>").value_or(-1);
  for (const std::int32_t id : *ids) {
    SLUICE_CHECK(id >= 0 && static_cast<std::size_t>(id) < tokenizer->vocabulary());
    SLUICE_CHECK(!tokenizer->is_special(id) || id == unknown);
  }
  SLUICE_CHECK(!first_invalid_utf8(tokenizer->decode(*ids)));
  return 0;
}
