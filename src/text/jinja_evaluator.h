// The values of a chat template's expressions, within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_functions.h"
#include "text/jinja_nested.h"
#include "text/jinja_syntax.h"
#include "text/jinja_value.h"

namespace sluice::text::jinja {

/// Sets a member, which may be there already.
void put(Dictionary& members, const std::string& name, Value value);

/// What names stand for, and what has been done so far. All errors are ErrorKind::usage with the
/// line.
class Evaluator {
 public:
  /// `now`: what strftime_now() tells; without it there is no such function.
  Evaluator(const Dictionary& names, const std::optional<std::tm>& now)
      : scopes_({names}), now_(now) {}
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

 protected:
  // More than any conversation needs; a template that is made to last for ever ends here.
  static constexpr std::size_t kMostSteps = 1'000'000;
  static constexpr std::size_t kStepsOfRound = 20;
  static constexpr std::size_t kBytesOfStep = 256;  // of a text that is made
  // Of the tree that is walked, through all macros that are at work: it costs stack.
  static constexpr int kMostDepth = 1000;

  /// What a macro writes when it is called with these arguments.
  virtual Result<Value> call_macro(const Node& call, const Node& macro, const Arguments& all) = 0;

  Result<Value> evaluate(const Node& node);
  Value look_up(std::string_view name) const;

  tl::unexpected<Error> wrong(const Node& node, std::string_view what) const;
  /// Puts the line before an error of a function.
  template <class T>
  Result<T> placed(const Node& node, Result<T> result) const {
    if (result) return result;
    return wrong(node, result.error().message);
  }
  /// Fails if that was too much, or too deep.
  Status step(const Node& node, std::size_t steps = 1);

  std::vector<Dictionary> scopes_;  // the template's own names, and those of loops and macros
  std::size_t first_scope_ = 0;     // of those beside the template's own that the macro sees
  int depth_ = 0;

 private:
  Result<Value> evaluate_any(const Node& node);
  Result<Value> collection(const Node& node);
  Result<Value> member(const Node& node);
  Result<std::int64_t> bound(const NodePtr& node, std::int64_t absent, std::int64_t size);
  Result<Value> slice(const Node& node);
  Result<Value> backwards(const Node& node, const List* list);
  Result<Arguments> arguments(const Node& node);
  Result<Value> call(const Node& node);
  Result<Value> call_own(const Node& node, std::string_view name, const Arguments& all);
  Result<Value> name_space(const Node& node, const Arguments& all) const;
  Result<Value> range(const Node& node, const Arguments& all) const;
  Result<Value> filter_or_test(const Node& node);
  Result<Value> unary(const Node& node);
  Result<Value> binary(const Node& node);

  std::optional<std::tm> now_;
  std::size_t steps_ = 0;
};

}  // namespace sluice::text::jinja
