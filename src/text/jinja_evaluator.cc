#include "text/jinja_evaluator.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace sluice::text::jinja {
namespace {

constexpr std::size_t kMostWeight = std::size_t{1} << 20;
constexpr std::int64_t kMostRange = 100'000;

using Kind = Node::Kind;

/// Where this thread's stack ends now; it grows downwards. (A local's address would not do: with
/// sanitizers it may lie elsewhere.)
[[gnu::always_inline]] inline std::uintptr_t stack_place() {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

/// As strftime() writes it in the C locale, whatever the machine's is.
Result<std::string> time_text(const std::string& format, const std::tm& time) {
  constexpr std::string_view kKnown = "aAbBdHIjmMpSyY%";
  constexpr std::size_t kMost = 200;
  for (std::size_t at = format.find('%'); at < format.size(); at = format.find('%', at + 2)) {
    if (at + 1 == format.size() || kKnown.find(format[at + 1]) == std::string_view::npos) {
      return fail(ErrorKind::usage, "strftime_now() knows %{} only", fmt::join(kKnown, ", %"));
    }
  }
  if (format.empty()) return std::string();
  std::array<char, 4 * kMost> text;
  const std::size_t size =
      format.size() > kMost ? 0 : std::strftime(text.data(), text.size(), format.c_str(), &time);
  if (size == 0) return fail(ErrorKind::usage, "strftime_now() of more than {} bytes", kMost);
  return std::string(text.data(), size);
}

Value characters_of(const Text& text, std::int64_t begin, std::int64_t end) {
  const std::size_t first = text.place_of(static_cast<std::size_t>(begin));
  return Value::text(text.part(first, text.place_of(static_cast<std::size_t>(end)) - first));
}

}  // namespace

void put(Dictionary& members, const std::string& name, Value value) {
  const auto found = std::ranges::find(members, name, [](const auto& each) { return each.first; });
  if (found == members.end()) {
    members.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

Evaluator::Evaluator(const Dictionary& names, const std::optional<std::tm>& now)
    : scopes_({names}), now_(now), stack_begin_(stack_place()) {}

tl::unexpected<Error> Evaluator::wrong(const Node& node, std::string_view what) const {
  return fail(ErrorKind::usage, "line {}: {}", node.line, what);
}

Status Evaluator::step(const Node& node, std::size_t steps) {
  steps_ += steps;
  if (steps_ > kMostSteps) return wrong(node, "the template takes too long");
  if (held_bytes() - held_at_begin_ > kMostHeld)
    return wrong(node, "the template holds too much at once");
  if (stack_begin_ > stack_place() + kMostStack) {
    return wrong(node, "macros that call macros too deeply, or too deep an expression");
  }
  return {};
}

Value Evaluator::look_up(std::string_view name) const {
  const auto in = [&](const Dictionary& scope) -> const Value* {
    const auto found = std::ranges::find(
        scope, name, [](const auto& each) { return std::string_view(each.first); });
    return found == scope.end() ? nullptr : &found->second;
  };
  for (std::size_t i = scopes_.size(); i > first_scope_; --i) {
    if (const Value* found = in(scopes_[i - 1])) return *found;
  }
  if (const Value* found = in(scopes_[0])) return *found;
  for (const std::string_view own : {"namespace", "range", "raise_exception"}) {
    if (name == own) return Value::function(nullptr, own);
  }
  if (name == "strftime_now" && now_) return Value::function(nullptr, name);
  return {};
}

Result<Value> Evaluator::evaluate(const Node& node) {
  SLUICE_TRY(step(node));
  SLUICE_ASSIGN(Value value, evaluate_any(node));
  if (value.weight() > kMostWeight) return wrong(node, "a list grows beyond all bounds");
  if (value.levels() > kMostLevels) return wrong(node, "lists in lists, too many levels of them");
  if (const Text* text = value.as_text()) SLUICE_TRY(step(node, text->size() / kBytesOfStep));
  return value;
}

Result<Value> Evaluator::evaluate_any(const Node& node) {
  switch (node.kind) {
    case Kind::string:
      return Value::text(node.text);
    case Kind::integer:
      return Value::number(node.number);
    case Kind::real:
      return Value(Value::Held(node.real));
    case Kind::constant:
      return node.text == "none" ? Value::none() : Value::flag(node.text == "true");
    case Kind::name:
      return look_up(node.text);
    case Kind::list:
    case Kind::dictionary:
      return collection(node);
    case Kind::member:
    case Kind::index:
      return member(node);
    case Kind::slice:
      return slice(node);
    case Kind::call:
      return call(node);
    case Kind::filter:
    case Kind::test:
      return filter_or_test(node);
    case Kind::unary:
      return unary(node);
    case Kind::binary:
      return binary(node);
    case Kind::choice: {
      SLUICE_ASSIGN(const Value condition, evaluate(*node.children[1]));
      if (condition.is_true()) return evaluate(*node.children[0]);
      return node.children[2] == nullptr ? Result<Value>(Value()) : evaluate(*node.children[2]);
    }
    default:
      return wrong(node, "no expression");
  }
}

Result<Value> Evaluator::collection(const Node& node) {
  List values;
  for (const NodePtr& child : node.children) {
    SLUICE_ASSIGN(Value value, evaluate(*child));
    values.push_back(std::move(value));
  }
  if (node.kind == Kind::list) return Value::list(std::move(values));
  Dictionary members;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    if (values[i].as_text() == nullptr) return wrong(node, "a key that is no string");
    put(members, values[i].as_text()->bytes, values[i + 1]);
  }
  return Value::dictionary(std::move(members));
}

Result<Value> Evaluator::member(const Node& node) {
  SLUICE_ASSIGN(const Value of, evaluate(*node.children[0]));
  Value key = Value::text(node.text);
  if (node.kind == Kind::index) {
    SLUICE_ASSIGN(key, evaluate(*node.children[1]));
  }
  if (of.is_undefined()) return wrong(node, "a member of something that is not defined");
  if (const Text* name = key.as_text()) {
    const Value* const found = of.member(name->bytes);
    return found == nullptr ? Value() : *found;
  }
  const std::int64_t* const index = key.as_integer();
  const List* const list = of.as_list();
  if (index == nullptr || (list == nullptr && of.as_text() == nullptr)) {
    return wrong(node, fmt::format("a subscript of {}", of.kind()));
  }
  const auto size =
      static_cast<std::int64_t>(list != nullptr ? list->size() : of.as_text()->length());
  const std::int64_t at = *index < 0 ? *index + size : *index;
  if (at < 0 || at >= size) return Value();
  if (list != nullptr) return (*list)[static_cast<std::size_t>(at)];
  return characters_of(*of.as_text(), at, at + 1);
}

/// A bound of a slice, as Python has it: from the back if negative, and never outside.
Result<std::int64_t> Evaluator::bound(const NodePtr& node, std::int64_t absent, std::int64_t size) {
  if (node == nullptr) return absent;
  SLUICE_ASSIGN(const Value value, evaluate(*node));
  if (value.is_none()) return absent;
  if (value.as_integer() == nullptr) return wrong(*node, "a slice without whole numbers");
  const std::int64_t at = *value.as_integer();
  return at < 0 ? std::max<std::int64_t>(0, std::max(at, -size) + size) : std::min(at, size);
}

Result<Value> Evaluator::slice(const Node& node) {
  SLUICE_ASSIGN(const Value of, evaluate(*node.children[0]));
  const List* const list = of.as_list();
  const Text* const text = of.as_text();
  if (list == nullptr && text == nullptr) {
    return wrong(node, fmt::format("a slice of {}", of.kind()));
  }
  const auto size = static_cast<std::int64_t>(list != nullptr ? list->size() : text->length());
  if (node.children[3] != nullptr) return backwards(node, list);
  SLUICE_ASSIGN(const std::int64_t begin, bound(node.children[1], 0, size));
  SLUICE_ASSIGN(const std::int64_t end, bound(node.children[2], size, size));
  const std::int64_t count = std::max<std::int64_t>(0, end - begin);
  if (text != nullptr) return characters_of(*text, begin, begin + count);
  return Value::list(List(list->begin() + begin, list->begin() + begin + count));
}

/// Of slices with a step only [::-1].
Result<Value> Evaluator::backwards(const Node& node, const List* list) {
  SLUICE_ASSIGN(const Value step, evaluate(*node.children[3]));
  const bool reverses = step.as_integer() != nullptr && *step.as_integer() == -1;
  if (list == nullptr || !reverses || node.children[1] != nullptr || node.children[2] != nullptr) {
    return wrong(node, "a slice with a step other than [::-1] of a list");
  }
  return Value::list(List(list->rbegin(), list->rend()));
}

Result<Arguments> Evaluator::arguments(const Node& node) {
  Arguments all;
  all.names = node.names;
  for (std::size_t i = 1; i < node.children.size(); ++i) {
    SLUICE_ASSIGN(Value value, evaluate(*node.children[i]));
    all.values.push_back(std::move(value));
  }
  return all;
}

Result<Value> Evaluator::call(const Node& node) {
  const Node& callee = *node.children[0];
  SLUICE_ASSIGN(const Arguments all, arguments(node));
  if (callee.kind == Kind::member) {
    SLUICE_ASSIGN(const Value of, evaluate(*callee.children[0]));
    return placed(node, call_method(callee.text, of, all));
  }
  SLUICE_ASSIGN(const Value function, evaluate(callee));
  const Value::Function* const known = function.as_function();
  if (known == nullptr && callee.kind != Kind::name) return wrong(node, "a call of no function");
  if (known == nullptr) {
    return wrong(node,
                 fmt::format("the function '{}' is not understood", callee.text.substr(0, 40)));
  }
  if (known->macro != nullptr) return call_macro(node, *known->macro, all);
  return call_own(node, known->name, all);
}

/// What every template finds without writing it.
Result<Value> Evaluator::call_own(const Node& node, std::string_view name, const Arguments& all) {
  if (name == "namespace" && all.unnamed() == 0) return name_space(node, all);
  if (name == "range") return range(node, all);
  if (name == "raise_exception" && all.values.size() == 1) {
    return wrong(node,
                 "the model's template says: " + all.values[0].to_text().bytes.substr(0, 500));
  }
  if (name == "strftime_now" && all.values.size() == 1 && all.values[0].as_text() != nullptr) {
    SLUICE_ASSIGN(std::string time, placed(node, time_text(all.values[0].as_text()->bytes, *now_)));
    return Value::text(time, kOtherData);
  }
  return wrong(node, fmt::format("'{}' with these arguments is not understood", name));
}

Result<Value> Evaluator::name_space(const Node& node, const Arguments& all) const {
  auto members = std::make_shared<Dictionary>();
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    if (all.values[i].holds_namespace()) return wrong(node, "a namespace in a namespace");
    put(*members, all.names[i], all.values[i]);
  }
  return Value(Value::Held(Value::Namespace{std::move(members)}));
}

Result<Value> Evaluator::range(const Node& node, const Arguments& all) const {
  std::vector<std::int64_t> bounds;
  for (const Value& value : all.values) {
    if (value.as_integer() == nullptr) return wrong(node, "range() of no whole numbers");
    bounds.push_back(*value.as_integer());
  }
  if (bounds.size() == 1) bounds.insert(bounds.begin(), 0);
  if (bounds.size() == 2) bounds.push_back(1);
  if (bounds.size() != 3 || bounds[2] == 0) return wrong(node, "range() wants 1 to 3 numbers");
  List numbers;
  for (std::int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    if (static_cast<std::int64_t>(numbers.size()) == kMostRange) {
      return wrong(node, "range() of too many numbers");
    }
    numbers.push_back(Value::number(i));
    if (__builtin_add_overflow(i, bounds[2], &i)) break;
  }
  return Value::list(std::move(numbers));
}

Result<Value> Evaluator::filter_or_test(const Node& node) {
  SLUICE_ASSIGN(const Value of, evaluate(*node.children[0]));
  SLUICE_ASSIGN(const Arguments all, arguments(node));
  if (node.kind == Kind::filter) return placed(node, apply_filter(node.text, of, all));
  SLUICE_ASSIGN(const bool holds, placed(node, apply_test(node.text, of, all)));
  return Value::flag(holds);
}

Result<Value> Evaluator::unary(const Node& node) {
  SLUICE_ASSIGN(const Value value, evaluate(*node.children[0]));
  if (node.text == "not") return Value::flag(!value.is_true());
  return placed(node, apply_operator("-", Value::number(0), value));
}

Result<Value> Evaluator::binary(const Node& node) {
  SLUICE_ASSIGN(Value left, evaluate(*node.children[0]));
  if (node.text == "and" && !left.is_true()) return left;
  if (node.text == "or" && left.is_true()) return left;
  SLUICE_ASSIGN(Value right, evaluate(*node.children[1]));
  if (node.text == "and" || node.text == "or") return right;
  return placed(node, apply_operator(node.text, left, right));
}

}  // namespace sluice::text::jinja
