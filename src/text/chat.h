// Conversations as token ids (SPEC 10, and 14 at its end for Kimi-Linear).
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/json.h"
#include "text/tokenizer.h"

namespace sluice::text {

struct JinjaChat;

/// A run of a rendered conversation. Control segments are markers that the format writes; text is
/// everything else, whoever wrote it, and never becomes a special token. Each segment is encoded on
/// its own, so where segments begin and end decides token ids.
struct Segment {
  std::string text;
  bool control = false;
};

/// What to render.
struct ChatRequest {
  /// Messages as OpenAI's chat API has them: a list of objects with `role` (system, user,
  /// assistant, tool), `content` (a string, null, or a list of text parts) and, by role, `name`,
  /// `reasoning_content` or `reasoning`, `tool_calls`, `tool_call_id`, `tool`, `tools`.
  Json messages = Json::array();
  Json tools;            ///< null, or a list of tool declarations
  Json tool_choice;      ///< null, "auto", "none" or "required"
  Json response_format;  ///< null, "json_object", or an object with `type` text, json_object,
                         ///< json_schema
  bool thinking = true;  ///< K3 only: whether the model thinks before it answers
  /// K3: low, high or max. gpt-oss: low, medium or high; any other is not told to the model, which
  /// takes medium. Empty: not told.
  std::string effort = "max";
  std::optional<std::tm> now;  ///< what a template that asks for the date is told; none: it fails
  bool generation_prompt = true;  ///< end with the start of the assistant's message
  std::size_t after = 0;  ///< templates only: not the whole conversation, but what follows the
                          ///< content of this message (1: the first); 0: the whole
  bool begins = true;  ///< the messages begin the conversation: a format that says something before
                       ///< the first message says it
};

/// The machine's date and time, where it is, for ChatRequest::now.
std::tm local_now();

/// One turn, for callers that have no JSON. `reasoning` is for role "assistant".
struct ChatTurn {
  std::string role;
  std::string content;
  std::string reasoning = {};
};
/// The turns as ChatRequest::messages.
Json messages_of(std::span<const ChatTurn> turns);

/// How one family of models writes conversations.
class ChatFormat {
 public:
  enum class Kind {
    kimi_k3,  ///< "XTML": <|open|>message role="user"<|sep|> ... <|end_of_msg|>
    kimi_k2,  ///< <|im_user|>user<|im_middle|> ... <|im_end|>; Kimi-Linear's too
    jinja,    ///< as the model's own template says
    harmony,  ///< as jinja, with answers in channels: <|start|>assistant<|channel|>final<|message|>
              ///< ... <|return|>, gpt-oss's
    chatml,   ///< <|im_start|>user, a new line ... <|im_end|>: SmolLM2, Qwen and many others
  };

  /// kimi_k3 by the names of the tokenizer's special tokens; else the tokenizer's own template.
  /// Without one, kimi_k2 or chatml if the tokenizer has its markers. A template that is not
  /// understood is no reason to write what the model never saw: ErrorKind::usage with its line; but
  /// for kimi_k2, whose template is known well enough to do without (which is said in a note). So
  /// fails a tokenizer whose tokens belong to no format that Sluice knows.
  static Result<ChatFormat> detect(const Tokenizer& tokenizer);
  /// `thinks`: of kimi_k2, whether the model is one that thinks, so that each of its answers has a
  /// place for what it thought (K2-Thinking).
  explicit ChatFormat(Kind kind, bool thinks = false) : kind_(kind), thinks_(thinks) {}
  explicit ChatFormat(std::shared_ptr<const JinjaChat> chat);

  Kind kind() const { return kind_; }
  /// Whether the model's own template writes the conversations, each time as a whole.
  bool has_template() const { return kind_ == Kind::jinja || kind_ == Kind::harmony; }

  /// The conversation as segments, none of them empty. Fails with ErrorKind::usage, naming the
  /// field, on whatever the format cannot say: never is a part of a request left out in silence.
  /// (What the model thought before earlier answers is no part: the makers of models leave it out.)
  /// gpt-oss is given what it thought before its calls, as long as no answer follows them, unless
  /// the same message has content, which its template gives it instead.
  /// `thinking` and `effort` mean nothing to kimi_k2 and chatml, which also know no tools here:
  /// these are refused.
  Result<std::vector<Segment>> render(const ChatRequest& request) const;

  /// render(), then encode_segments(). ErrorKind::usage if an answer is to follow, but nothing is
  /// written that it could follow.
  Result<std::vector<std::int32_t>> encode(const Tokenizer& tokenizer,
                                           const ChatRequest& request) const;

  /// Whether an answer behind this prompt begins inside the reasoning: the prompt has opened it, as
  /// kimi_k3 does if asked to and some templates always do (a <think> token that no text becomes,
  /// of harmony the channel `analysis`), and nothing but white space is behind that.
  bool opens_reasoning(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt) const;

 private:
  Kind kind_;
  bool thinks_ = false;
  std::shared_ptr<const JinjaChat> jinja_;
};

/// The ids of segments: control with special tokens, text without. `begins`: of
/// Tokenizer::encode().
Result<std::vector<std::int32_t>> encode_segments(const Tokenizer& tokenizer,
                                                  std::span<const Segment> segments,
                                                  bool begins = true);

}  // namespace sluice::text
