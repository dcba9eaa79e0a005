#include "text/jinja_renderer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sluice::text::jinja {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

using Kind = Node::Kind;

Value place_in_loop(const List& items, std::int64_t i) {
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

}  // namespace

Result<Text> Renderer::render(const Node& root) {
  SLUICE_TRY(run(root));
  return std::move(out_);
}

Result<Renderer::Flow> Renderer::run(const Node& node) {
  SLUICE_TRY(step(node));
  switch (node.kind) {
    case Kind::body:
      return body(node);
    case Kind::text:
      SLUICE_TRY(write(node, Text(node.text, kTemplate)));
      return Flow::next;
    case Kind::output:
      SLUICE_TRY(output(node));
      return Flow::next;
    case Kind::branch:
      return branch(node);
    case Kind::loop:
      return loop(node);
    case Kind::leave_loop:
      return Flow::leave_loop;
    case Kind::next_round:
      return Flow::next_round;
    case Kind::assign:
      SLUICE_TRY(assign(node));
      return Flow::next;
    case Kind::macro:
      put(scopes_.back(), node.text, Value::function(&node, node.text));
      return Flow::next;
    default:
      return wrong(node, "no statement");
  }
}

Status Renderer::output(const Node& node) {
  SLUICE_ASSIGN(const Value value, evaluate(*node.children[0]));
  return write(node, value.to_text());
}

Status Renderer::write(const Node& node, const Text& text) {
  if (held_ + out_.size() + text.size() > kMostBytes) {
    return wrong(node, "the text becomes too long");
  }
  out_.append(text);
  return {};
}

Result<Renderer::Flow> Renderer::body(const Node& node) {
  for (const NodePtr& child : node.children) {
    SLUICE_ASSIGN(const Flow flow, run(*child));
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Result<Renderer::Flow> Renderer::branch(const Node& node) {
  std::size_t at = 0;
  for (; at + 1 < node.children.size(); at += 2) {
    SLUICE_ASSIGN(const Value condition, evaluate(*node.children[at]));
    if (condition.is_true()) return run(*node.children[at + 1]);
  }
  return at < node.children.size() ? run(*node.children[at]) : Flow::next;
}

/// What a loop goes over: the members of a list, the keys of a dictionary.
Result<List> Renderer::items_of(const Node& node, const Value& value) const {
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
Status Renderer::bind(const Node& node, const Value& item, Dictionary& scope) const {
  if (node.names.size() == 1) {
    scope.emplace_back(node.names[0], item);
    return {};
  }
  const List* const parts = item.as_list();
  if (parts == nullptr || parts->size() != node.names.size()) {
    return wrong(node,
                 fmt::format("cannot take {} apart into {} names", item.kind(), node.names.size()));
  }
  for (std::size_t i = 0; i < parts->size(); ++i) scope.emplace_back(node.names[i], (*parts)[i]);
  return {};
}

/// The items for which a loop's condition holds.
Result<List> Renderer::chosen(const Node& node, const List& items) {
  List chosen;
  for (const Value& item : items) {
    SLUICE_TRY(step(node, kStepsOfRound));
    scopes_.emplace_back();
    SLUICE_TRY(bind(node, item, scopes_.back()));
    SLUICE_ASSIGN(const Value holds, evaluate(*node.children[3]));
    scopes_.pop_back();
    if (holds.is_true()) chosen.push_back(item);
  }
  return chosen;
}

Result<Renderer::Flow> Renderer::loop(const Node& node) {
  SLUICE_ASSIGN(const Value value, evaluate(*node.children[0]));
  SLUICE_ASSIGN(List items, items_of(node, value));
  if (node.children[3] != nullptr) {
    SLUICE_ASSIGN(items, chosen(node, items));
  }
  if (items.empty()) return run(*node.children[2]);
  for (std::size_t i = 0; i < items.size(); ++i) {
    SLUICE_TRY(step(node, kStepsOfRound));
    scopes_.emplace_back();
    SLUICE_TRY(bind(node, items[i], scopes_.back()));
    scopes_.back().emplace_back("loop", place_in_loop(items, static_cast<std::int64_t>(i)));
    SLUICE_ASSIGN(const Flow flow, run(*node.children[1]));
    scopes_.pop_back();
    if (flow == Flow::leave_loop) break;
  }
  return Flow::next;
}

Status Renderer::assign(const Node& node) {
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

/// The names that a macro begins with. One without an argument or a default is not defined.
Result<Dictionary> Renderer::bind_arguments(const Node& call, const Node& macro,
                                            const Arguments& all) {
  if (all.unnamed() > macro.names.size()) {
    return wrong(call, fmt::format("the macro '{}' takes at most {} arguments", macro.text,
                                   macro.names.size()));
  }
  for (const std::string& name : all.names) {
    const auto found = std::ranges::find(macro.names, name);
    const auto place = static_cast<std::size_t>(found - macro.names.begin());
    if (found == macro.names.end() || place < all.unnamed()) {
      return wrong(call, fmt::format("the macro '{}' takes no '{}' here", macro.text, name));
    }
  }
  Dictionary scope;
  for (std::size_t i = 0; i < macro.names.size(); ++i) {
    const Value* const given = all.get(i, macro.names[i]);
    scope.emplace_back(macro.names[i], given == nullptr ? Value() : *given);
  }
  return scope;
}

/// It sees the template's own names and its arguments, and nothing of who calls it.
Result<Value> Renderer::call_macro(const Node& call, const Node& macro, const Arguments& all) {
  SLUICE_TRY(step(call, kStepsOfRound));
  SLUICE_ASSIGN(Dictionary scope, bind_arguments(call, macro, all));
  const std::size_t outer_scope = std::exchange(first_scope_, scopes_.size());
  Text outer = std::exchange(out_, {});
  held_ += outer.size();
  scopes_.push_back(std::move(scope));
  for (std::size_t i = 0; i < macro.names.size(); ++i) {
    if (macro.children[i + 1] == nullptr || all.get(i, macro.names[i]) != nullptr) continue;
    SLUICE_ASSIGN(Value value, evaluate(*macro.children[i + 1]));
    scopes_.back()[i].second = std::move(value);
  }
  SLUICE_TRY(run(*macro.children[0]));
  scopes_.pop_back();
  held_ -= outer.size();
  first_scope_ = outer_scope;
  return Value::text(std::exchange(out_, std::move(outer)));
}

}  // namespace sluice::text::jinja
