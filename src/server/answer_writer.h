// How an API writes answers: event by event, or whole.
#pragma once

#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/task.h"
#include "text/json.h"

namespace sluice::server {

/// Steps of one kind, joined.
struct AnswerBlock {
  enum class Kind : std::uint8_t { reasoning, text, call };
  Kind kind = Kind::text;
  std::string text;     ///< of a call: its arguments
  std::string name;     ///< of a call
  std::string call_id;  ///< of a call
};

/// One whole answer, in the order in which it was written.
struct WholeChoice {
  std::vector<AnswerBlock> blocks;
  std::vector<text::TokenLogProbability> log_probabilities;
  Finish finish = Finish::stop;
  std::string stop_string = {};  ///< before which it ended, if it did

  void add(const AnswerStep& step);
  /// All blocks of a kind, joined.
  std::string joined(AnswerBlock::Kind kind) const;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  /// Server-sent events: before the first step; for a step or the end of a choice; after the last;
  /// instead of what would have followed. Any may be empty.
  virtual std::string begin() = 0;
  virtual std::string event(const TaskEvent& event) = 0;
  virtual std::string end(const Usage& usage) = 0;
  virtual std::string failed(const ApiError& error) = 0;
  /// Shows that the server lives while nothing is written.
  virtual std::string heartbeat() { return ": working\n\n"; }

  /// The same as one object, in a line of JSON.
  virtual std::string whole_line(const std::vector<WholeChoice>& choices, const Usage& usage) = 0;
  /// An error without a stream.
  virtual std::string error(const ApiError& error) const = 0;
};

/// "data: ...\n\n", after "event: ...\n" if there is a name.
std::string server_sent(const text::Json& data, std::string_view name = {});

/// One line of JSON, from which parse_json() makes the same again, numbers of any length included.
/// What is no UTF-8 becomes U+FFFD.
std::string to_line(const text::Json& json);

}  // namespace sluice::server
