// A request for an answer, whichever API it comes by.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer_writer.h"
#include "server/api_error.h"
#include "server/served_model.h"
#include "server/task.h"
#include "text/json.h"

namespace sluice::server {

inline constexpr std::string_view kChatPath = "/v1/chat/completions";
inline constexpr std::string_view kCompletionsPath = "/v1/completions";
inline constexpr std::string_view kMessagesPath = "/v1/messages";

struct Asked {
  std::string id;
  Generation generation;
  std::unique_ptr<AnswerWriter> writer;
  std::string user;
  bool stream = false;
};

/// Reads a request's body. `path` is one of the above. `unique` becomes part of all ids, and `seed`
/// draws where the request has none.
ApiResult<Asked> read_asked(std::string_view path, const text::Json& body, const ServedModel& model,
                            const std::string& unique, std::uint64_t seed);

/// Whether a request with this body gets another answer each time that it is sent.
bool is_drawn_anew(const text::Json& body, const Generation& generation);

/// Puts a task's events together to whole answers.
class AnswerCollector {
 public:
  explicit AnswerCollector(const Generation& generation)
      : choices_(generation.choices * generation.prompts.size()) {}

  /// Takes steps and ends of choices; nothing else matters to it.
  void add(const TaskEvent& event);
  const std::vector<WholeChoice>& choices() const { return choices_; }

 private:
  std::vector<WholeChoice> choices_;
};

}  // namespace sluice::server
