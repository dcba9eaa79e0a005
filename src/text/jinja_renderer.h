// The text that a chat template writes.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "text/jinja_evaluator.h"

namespace sluice::text::jinja {

/// Walks the statements of a template.
class Renderer : public Evaluator {
 public:
  using Evaluator::Evaluator;

  Result<Text> render(const Node& root);

 private:
  /// How a statement ends.
  enum class Flow { next, leave_loop, next_round };

  Result<Value> call_macro(const Node& call, const Node& macro, const Arguments& all) override;
  [[gnu::noinline]] Result<Dictionary> bind_arguments(const Node& call, const Node& macro,
                                                      const Arguments& all);
  Result<Flow> run(const Node& node);
  // Each a frame of its own, as the evaluator's.
  [[gnu::noinline]] Status output(const Node& node);
  [[gnu::noinline]] Status write(const Node& node, const Text& text);
  [[gnu::noinline]] Result<Flow> body(const Node& node);
  [[gnu::noinline]] Result<Flow> branch(const Node& node);
  Result<List> items_of(const Node& node, const Value& value) const;
  [[gnu::noinline]] Status bind(const Node& node, const Value& item, Dictionary& scope) const;
  [[gnu::noinline]] Result<List> chosen(const Node& node, const List& items);
  [[gnu::noinline]] Result<Flow> loop(const Node& node);
  [[gnu::noinline]] Status assign(const Node& node);

  Text out_;              // of the macro at work, or of the template
  std::size_t held_ = 0;  // bytes that those have written which called it
};

}  // namespace sluice::text::jinja
