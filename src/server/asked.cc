#include "server/asked.h"

#include <ctime>
#include <utility>

#include "base/check.h"
#include "server/anthropic.h"
#include "server/openai_answer.h"
#include "server/openai_request.h"

namespace sluice::server {
namespace {

std::int64_t now() { return static_cast<std::int64_t>(std::time(nullptr)); }

/// Of either kind of request; the writer must have been made.
template <class Request>
void take(Request request, Asked& asked) {
  asked.user = std::move(request.user);
  asked.stream = request.stream;
  asked.generation = std::move(request.generation);
}

}  // namespace

ApiResult<Asked> read_asked(std::string_view path, const text::Json& body, const ServedModel& model,
                            const std::string& unique, std::uint64_t seed) {
  Asked asked;
  if (path == kChatPath) {
    asked.id = "chatcmpl-" + unique;
    SLUICE_ASSIGN(OpenAiRequest request,
                  read_chat_request(body, model, "call_" + unique + "_", seed));
    asked.writer = chat_writer(request, model, asked.id, now());
    take(std::move(request), asked);
  } else if (path == kCompletionsPath) {
    asked.id = "cmpl-" + unique;
    SLUICE_ASSIGN(OpenAiRequest request, read_completion_request(body, model, seed));
    asked.writer = completion_writer(request, model, asked.id, now());
    take(std::move(request), asked);
  } else {
    SLUICE_CHECK(path == kMessagesPath);
    asked.id = "msg_" + unique;
    SLUICE_ASSIGN(MessagesRequest request,
                  read_messages_request(body, model, "toolu_" + unique + "_", seed));
    asked.writer = messages_writer(request, model, asked.id);
    take(std::move(request), asked);
  }
  return asked;
}

bool is_drawn_anew(const text::Json& body, const Generation& generation) {
  const auto seed = body.find("seed");
  const bool has_seed = seed != body.end() && !seed->is_null();
  return !has_seed && !generation.sampling.is_greedy();
}

void AnswerCollector::add(const TaskEvent& event) {
  WholeChoice& choice = choices_[event.choice];
  if (event.kind == TaskEvent::Kind::step) choice.add(event.step);
  if (event.kind != TaskEvent::Kind::choice_end) return;
  choice.finish = event.finish;
  choice.stop_string = event.stop_string;
}

}  // namespace sluice::server
