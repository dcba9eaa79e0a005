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
#include "base/thread_pool.h"
#include "text/jinja_functions.h"
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
  Evaluator(const Dictionary& names, const std::optional<std::tm>& now);
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

 protected:
  // More than any conversation needs; a template that is made to last for ever ends here.
  static constexpr std::size_t kMostSteps = 1'000'000;
  static constexpr std::size_t kStepsOfRound = 20;
  static constexpr std::size_t kBytesOfStep = 256;  // of a text that is made
  // Of a thread's stack, from where the template began: what walks the tree calls itself, through
  // all macros that are at work. How much a call takes is the compiler's, and no number of calls
  // tells it. (gpt-oss's template takes 30 KB, and with sanitizers 140.)
#ifdef SLUICE_SANITIZED
  static constexpr std::size_t kMostStack = kThreadStackBytes / 4 * 3;
#else
  static constexpr std::size_t kMostStack = kThreadStackBytes / 2;
#endif
  // Of lists, dictionaries and the origins of texts that are there at once; the texts' bytes are
  // half as much again, and one value more is made before it is seen.
  static constexpr std::int64_t kMostHeld = std::int64_t{64} << 20;
  // Of lists in lists: what becomes text, is compared or freed calls itself, too. A call's
  // arguments have kJsonDepth, and lie in messages.
  static constexpr std::size_t kMostLevels = kJsonDepth + 20;

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

 private:
  // Each a frame of its own: in one, all of them would lie on the stack at each level of the tree.
  [[gnu::noinline]] Result<Value> evaluate_any(const Node& node);
  [[gnu::noinline]] Result<Value> collection(const Node& node);
  [[gnu::noinline]] Result<Value> member(const Node& node);
  [[gnu::noinline]] Result<std::int64_t> bound(const NodePtr& node, std::int64_t absent,
                                               std::int64_t size);
  [[gnu::noinline]] Result<Value> slice(const Node& node);
  [[gnu::noinline]] Result<Value> backwards(const Node& node, const List* list);
  [[gnu::noinline]] Result<Arguments> arguments(const Node& node);
  [[gnu::noinline]] Result<Value> call(const Node& node);
  [[gnu::noinline]] Result<Value> call_own(const Node& node, std::string_view name,
                                           const Arguments& all);
  [[gnu::noinline]] Result<Value> name_space(const Node& node, const Arguments& all) const;
  [[gnu::noinline]] Result<Value> range(const Node& node, const Arguments& all) const;
  [[gnu::noinline]] Result<Value> filter_or_test(const Node& node);
  [[gnu::noinline]] Result<Value> unary(const Node& node);
  [[gnu::noinline]] Result<Value> binary(const Node& node);

  std::optional<std::tm> now_;
  std::size_t steps_ = 0;
  const std::uintptr_t stack_begin_;
  const std::int64_t held_at_begin_ = held_bytes();
};

}  // namespace sluice::text::jinja
