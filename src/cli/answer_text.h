// From the ids of an answer to its text, while they come.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/answer_parser.h"
#include "text/detokenizer.h"
#include "text/stop.h"
#include "text/tokenizer.h"

namespace sluice::cli {

enum class Channel : std::uint8_t { reasoning, response };

/// Gives out whole characters only, by channel, as early as they are certain. Stop strings end the
/// response; what the model thinks does not count.
class AnswerText {
 public:
  /// Takes pieces of text, never empty.
  using Sink = std::function<void(Channel channel, const std::string& text)>;

  /// With a parser: the answer is one of a chat format; otherwise all of it is response. Fails with
  /// ErrorKind::usage if a stop string is empty or not UTF-8. The tokenizer must outlive the
  /// object.
  static Result<AnswerText> create(const text::Tokenizer& tokenizer,
                                   std::optional<text::AnswerParser> parser,
                                   const std::vector<std::string>& stops, Sink sink);

  /// One more id; false once nothing that follows counts: a stop string came, or the model ended
  /// its turn.
  bool push(std::int32_t id);
  /// The end of the ids: gives out what was held back. `cut`: more would have come, so what only
  /// begins one of the format's own marks is no answer.
  void finish(bool cut);

 private:
  AnswerText(const text::Tokenizer& tokenizer, std::optional<text::AnswerParser> parser,
             text::StopMatcher stops, Sink sink);
  bool take(const std::vector<text::AnswerEvent>& events);
  bool respond(std::string_view text);

  text::Detokenizer characters_;
  std::optional<text::AnswerParser> parser_;
  text::StopMatcher stops_;
  Sink sink_;
};

}  // namespace sluice::cli
