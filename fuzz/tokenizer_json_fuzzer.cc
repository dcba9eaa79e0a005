// tokenizer.json: whatever it says, it makes a tokenizer that gives texts back, or an error.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/tokenizer_json.h"

using namespace sluice;
using namespace sluice::text;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tokenizer =
      parse_tokenizer_json({reinterpret_cast<const char*>(data), size}, {}, "fuzz");
  if (!tokenizer) return 0;
  constexpr std::string_view kText = "It's 1893: caf\xC3\xA9 \xF0\x9F\x99\x82\n\n  <|end|> end";
  const auto ids = tokenizer->encode(kText, Tokenizer::Special::as_text);
  if (!ids) return 0;
  SLUICE_CHECK(tokenizer->decode(*ids) == kText);
  for (const std::int32_t id : *ids) SLUICE_CHECK(!tokenizer->is_special(id));
  return 0;
}
