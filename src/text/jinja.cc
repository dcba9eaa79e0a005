#include "text/jinja.h"

#include <algorithm>
#include <utility>

#include "text/jinja_functions.h"

namespace sluice::text::jinja {
namespace {

// More than any conversation needs; a template that is made to last for ever ends here.
constexpr std::size_t kMostSteps = 1'000'000;
constexpr std::size_t kStepsOfRound = 20;
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kMostWeight = std::size_t{1} << 20;
constexpr std::int64_t kMostRange = 100'000;

using Kind = Node::Kind;

class Renderer {
 public:
  explicit Renderer(const Dictionary& names) { scopes_.push_back(names); }

  Status run(const Node& node) {
    SLUICE_TRY(step(node));
    switch (node.kind) {
      case Kind::body:
        for (const NodePtr& child : node.children) SLUICE_TRY(run(*child));
        return {};
      case Kind::text:
        return write(node, Text(node.text, kTemplate));
      case Kind::output: {
        SLUICE_ASSIGN(const Value value, evaluate(*node.children[0]));
        return write(node, value.to_text());
      }
      case Kind::branch:
        return branch(node);
      case Kind::loop:
        return loop(node);
      case Kind::assign:
        return assign(node);
      default:
        return wrong(node, "no statement");
    }
  }

  Text take() { return std::move(out_); }

 private:
  tl::unexpected<Error> wrong(const Node& node, std::string_view what) const {
    return fail(ErrorKind::usage, "line {}: {}", node.line, what);
  }
  /// Puts the line before an error of a function.
  template <class T>
  Result<T> placed(const Node& node, Result<T> result) const {
    if (result) return result;
    return wrong(node, result.error().message);
  }

  Status step(const Node& node, std::size_t steps = 1) {
    steps_ += steps;
    if (steps_ <= kMostSteps) return {};
    return wrong(node, "the template takes too long");
  }

  Status write(const Node& node, const Text& text) {
    if (out_.size() + text.size() > kMostBytes) return wrong(node, "the text becomes too long");
    out_.append(text);
    return {};
  }

  Status branch(const Node& node) {
    std::size_t at = 0;
    for (; at + 1 < node.children.size(); at += 2) {
      SLUICE_ASSIGN(const Value condition, evaluate(*node.children[at]));
      if (condition.is_true()) return run(*node.children[at + 1]);
    }
    return at < node.children.size() ? run(*node.children[at]) : Status();
  }

  /// What a loop goes over: the members of a list, the keys of a dictionary.
  Result<List> items_of(const Node& node, const Value& value) const {
    if (const List* list = value.as_list()) return *list;
    List keys;
    if (const Dictionary* members = value.as_dictionary()) {
      for (const auto& [key, member] : *members) keys.push_back(Value::text(key, kOtherData));
      return keys;
    }
    if (value.is_undefined()) return keys;
    return wrong(node, fmt::format("a loop over {}", value.kind()));
  }

  /// The names of a round: one for the item, or several for its parts.
  Status bind(const Node& node, const Value& item, Dictionary& scope) const {
    if (node.names.size() == 1) {
      scope.emplace_back(node.names[0], item);
      return {};
    }
    const List* const parts = item.as_list();
    if (parts == nullptr || parts->size() != node.names.size()) {
      return wrong(
          node, fmt::format("cannot take {} apart into {} names", item.kind(), node.names.size()));
    }
    for (std::size_t i = 0; i < parts->size(); ++i) scope.emplace_back(node.names[i], (*parts)[i]);
    return {};
  }

  Status loop(const Node& node) {
    SLUICE_ASSIGN(const Value value, evaluate(*node.children[0]));
    SLUICE_ASSIGN(List items, items_of(node, value));
    if (node.children[3] != nullptr) {
      List chosen;
      for (const Value& item : items) {
        SLUICE_TRY(step(node, kStepsOfRound));
        scopes_.emplace_back();
        const Status named = bind(node, item, scopes_.back());
        auto holds = named ? evaluate(*node.children[3]) : Result<Value>(Value());
        scopes_.pop_back();
        SLUICE_TRY(named);
        if (!holds) return tl::unexpected(std::move(holds).error());
        if (holds->is_true()) chosen.push_back(item);
      }
      items = std::move(chosen);
    }
    if (items.empty()) return run(*node.children[2]);
    const auto count = static_cast<std::int64_t>(items.size());
    for (std::int64_t i = 0; i < count; ++i) {
      SLUICE_TRY(step(node, kStepsOfRound));
      scopes_.emplace_back();
      Status status = bind(node, items[static_cast<std::size_t>(i)], scopes_.back());
      scopes_.back().emplace_back("loop", place_in_loop(items, i));
      if (status) status = run(*node.children[1]);
      scopes_.pop_back();
      SLUICE_TRY(status);
    }
    return {};
  }

  static Value place_in_loop(const List& items, std::int64_t i) {
    const auto count = static_cast<std::int64_t>(items.size());
    Dictionary loop = {{"index", Value::number(i + 1)},
                       {"index0", Value::number(i)},
                       {"first", Value::flag(i == 0)},
                       {"last", Value::flag(i + 1 == count)},
                       {"length", Value::number(count)},
                       {"revindex", Value::number(count - i)},
                       {"revindex0", Value::number(count - i - 1)}};
    if (i > 0) loop.emplace_back("previtem", items[static_cast<std::size_t>(i - 1)]);
    if (i + 1 < count) loop.emplace_back("nextitem", items[static_cast<std::size_t>(i + 1)]);
    return Value::dictionary(std::move(loop));
  }

  static void put(Dictionary& members, const std::string& name, Value value) {
    const auto found =
        std::ranges::find(members, name, [](const auto& each) { return each.first; });
    if (found == members.end()) {
      members.emplace_back(name, std::move(value));
    } else {
      found->second = std::move(value);
    }
  }

  Status assign(const Node& node) {
    SLUICE_ASSIGN(Value value, evaluate(*node.children[0]));
    if (node.names.size() == 1) {
      put(scopes_.back(), node.names[0], std::move(value));
      return {};
    }
    const Value space = look_up(node.names[0]);
    if (space.as_namespace() == nullptr) {
      return wrong(node, fmt::format("'{}' is no namespace", node.names[0]));
    }
    if (value.holds_namespace()) return wrong(node, "a namespace in a namespace");
    put(*space.as_namespace()->members, node.names[1], std::move(value));
    return {};
  }

  Value look_up(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = std::ranges::find(
          *scope, name, [](const auto& each) { return std::string_view(each.first); });
      if (found != scope->end()) return found->second;
    }
    return {};
  }

  Result<Value> evaluate(const Node& node) {
    SLUICE_TRY(step(node));
    SLUICE_ASSIGN(Value value, evaluate_any(node));
    if (value.weight() > kMostWeight) return wrong(node, "a list grows beyond all bounds");
    return value;
  }

  Result<Value> evaluate_any(const Node& node) {
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

  Result<Value> collection(const Node& node) {
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

  Result<Value> member(const Node& node) {
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
        static_cast<std::int64_t>(list != nullptr ? list->size() : of.as_text()->size());
    const std::int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return Value();
    if (list != nullptr) return (*list)[static_cast<std::size_t>(at)];
    return Value::text(of.as_text()->part(static_cast<std::size_t>(at), 1));
  }

  /// A bound of a slice, as Python has it: from the back if negative, and never outside.
  Result<std::int64_t> bound(const NodePtr& node, std::int64_t absent, std::int64_t size) {
    if (node == nullptr) return absent;
    SLUICE_ASSIGN(const Value value, evaluate(*node));
    if (value.is_none()) return absent;
    if (value.as_integer() == nullptr) return wrong(*node, "a slice without whole numbers");
    const std::int64_t at = *value.as_integer();
    return at < 0 ? std::max<std::int64_t>(0, std::max(at, -size) + size) : std::min(at, size);
  }

  Result<Value> slice(const Node& node) {
    SLUICE_ASSIGN(const Value of, evaluate(*node.children[0]));
    const List* const list = of.as_list();
    const Text* const text = of.as_text();
    if (list == nullptr && text == nullptr) {
      return wrong(node, fmt::format("a slice of {}", of.kind()));
    }
    const auto size = static_cast<std::int64_t>(list != nullptr ? list->size() : text->size());
    if (node.children[3] != nullptr) return backwards(node, list);
    SLUICE_ASSIGN(const std::int64_t begin, bound(node.children[1], 0, size));
    SLUICE_ASSIGN(const std::int64_t end, bound(node.children[2], size, size));
    const std::int64_t count = std::max<std::int64_t>(0, end - begin);
    if (text != nullptr) {
      return Value::text(
          text->part(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    }
    return Value::list(List(list->begin() + begin, list->begin() + begin + count));
  }

  /// Of slices with a step only [::-1].
  Result<Value> backwards(const Node& node, const List* list) {
    SLUICE_ASSIGN(const Value step, evaluate(*node.children[3]));
    const bool reverses = step.as_integer() != nullptr && *step.as_integer() == -1;
    if (list == nullptr || !reverses || node.children[1] != nullptr ||
        node.children[2] != nullptr) {
      return wrong(node, "a slice with a step other than [::-1] of a list");
    }
    return Value::list(List(list->rbegin(), list->rend()));
  }

  Result<Arguments> arguments(const Node& node) {
    Arguments all;
    all.names = node.names;
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      SLUICE_ASSIGN(Value value, evaluate(*node.children[i]));
      all.values.push_back(std::move(value));
    }
    return all;
  }

  Result<Value> call(const Node& node) {
    const Node& callee = *node.children[0];
    SLUICE_ASSIGN(const Arguments all, arguments(node));
    if (callee.kind == Kind::member) {
      SLUICE_ASSIGN(const Value of, evaluate(*callee.children[0]));
      return placed(node, call_method(callee.text, of, all));
    }
    if (callee.kind != Kind::name) return wrong(node, "a call of no function");
    if (callee.text == "namespace" && all.unnamed() == 0) {
      auto members = std::make_shared<Dictionary>();
      for (std::size_t i = 0; i < all.names.size(); ++i) {
        if (all.values[i].holds_namespace()) return wrong(node, "a namespace in a namespace");
        put(*members, all.names[i], all.values[i]);
      }
      return Value(Value::Held(Value::Namespace{std::move(members)}));
    }
    if (callee.text == "range") return range(node, all);
    if (callee.text == "raise_exception" && all.values.size() == 1) {
      return wrong(node,
                   "the model's template says: " + all.values[0].to_text().bytes.substr(0, 500));
    }
    return wrong(node,
                 fmt::format("the function '{}' is not understood", callee.text.substr(0, 40)));
  }

  Result<Value> range(const Node& node, const Arguments& all) const {
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

  Result<Value> filter_or_test(const Node& node) {
    SLUICE_ASSIGN(const Value of, evaluate(*node.children[0]));
    SLUICE_ASSIGN(const Arguments all, arguments(node));
    if (node.kind == Kind::filter) return placed(node, apply_filter(node.text, of, all));
    SLUICE_ASSIGN(const bool holds, placed(node, apply_test(node.text, of, all)));
    return Value::flag(holds);
  }

  Result<Value> unary(const Node& node) {
    SLUICE_ASSIGN(const Value value, evaluate(*node.children[0]));
    if (node.text == "not") return Value::flag(!value.is_true());
    return placed(node, apply_operator("-", Value::number(0), value));
  }

  Result<Value> binary(const Node& node) {
    SLUICE_ASSIGN(Value left, evaluate(*node.children[0]));
    if (node.text == "and" && !left.is_true()) return left;
    if (node.text == "or" && left.is_true()) return left;
    SLUICE_ASSIGN(Value right, evaluate(*node.children[1]));
    if (node.text == "and" || node.text == "or") return right;
    return placed(node, apply_operator(node.text, left, right));
  }

  std::vector<Dictionary> scopes_;
  Text out_;
  std::size_t steps_ = 0;
};

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  SLUICE_ASSIGN(NodePtr root, jinja::parse(source));
  return Template(std::move(root));
}

Result<Text> Template::render(const Dictionary& names) const {
  Renderer renderer(names);
  SLUICE_TRY(renderer.run(*root_));
  return renderer.take();
}

}  // namespace sluice::text::jinja
