#include "text/k3_calls.h"

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "text/chat_k3.h"
#include "text/schema_reader.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

constexpr std::int64_t kMostCalls = 999;  // as far as calls are numbered
constexpr const char* kAnyTypes[] = {"string", "number", "boolean", "null", "object", "array"};

void append(Symbols& symbols, std::string_view bytes) {
  const Symbols more = symbols_of(bytes);
  symbols.insert(symbols.end(), more.begin(), more.end());
}

class CallsWriter {
 public:
  CallsWriter(Grammar& grammar, const K3Markers& markers) : grammar_(grammar), markers_(markers) {
    GrammarNode number = {Kind::number};
    number.range = {1, kMostCalls};
    number_ = grammar.add(std::move(number));
    header_end_ = grammar.literal(markers.end("\""));
    call_end_ = grammar.literal(markers.close("call"));
    argument_end_ = grammar.literal(markers.close("argument"));
  }

  Result<GrammarId> call(const Json& function, const std::string& where) {
    const std::string& name = function["name"].get_ref<const std::string&>();
    SLUICE_ASSIGN(const GrammarId arguments, arguments_of(function, where));
    const std::string header = "call tool=\"" + escape_attribute(name) + "\" index=\"";
    return grammar_.sequence(
        {grammar_.literal(markers_.begin(header)), number_, header_end_, arguments, call_end_});
  }

 private:
  Result<GrammarId> arguments_of(const Json& function, const std::string& where) {
    if (function.value("strict", Json()) != true) return any_arguments();
    static const Json kNoParameters = {{"type", "object"}, {"additionalProperties", false}};
    const auto found = function.find("parameters");
    const Json& parameters = found == function.end() || found->is_null() ? kNoParameters : *found;
    SchemaReader reader(grammar_, parameters, where);
    SLUICE_ASSIGN(const std::vector<JsonMember> members,
                  reader.read_members([this](std::string_view type, GrammarId value) {
                    return typed(type, value);
                  }));
    GrammarId rest = grammar_.sequence({});
    for (std::size_t i = members.size(); i-- > 0;) {
      const std::string header = "argument key=\"" + escape_attribute(members[i].name) + "\"";
      const GrammarId with =
          grammar_.sequence({grammar_.literal(markers_.begin(header)), members[i].value, rest});
      rest = members[i].required ? with : grammar_.choice({with, rest});
    }
    return rest;
  }

  /// What is in an argument's header behind its key, its value, and its end. Here K3's types are
  /// JSON's.
  GrammarId typed(std::string_view type, GrammarId value) {
    const std::string header = " type=\"" + std::string(type) + "\"";
    return grammar_.sequence({grammar_.literal(markers_.end(header)), value, argument_end_});
  }

  /// Any number of arguments of any name and type, for tools that are not strict.
  Result<GrammarId> any_arguments() {
    if (any_) return *any_;
    std::vector<GrammarId> ways;
    for (const char* type : kAnyTypes) {
      const bool is_string = std::string_view(type) == "string";
      GrammarId value = 0;
      if (is_string) {
        value = grammar_.add({Kind::text});
      } else {
        schemas_.push_back({{"type", type}});
        SLUICE_ASSIGN(value, SchemaReader(grammar_, schemas_.back(), "tools").read());
      }
      ways.push_back(typed(type, value));
    }
    GrammarNode key = {Kind::string};  // quotes and all
    key.least = 1;
    const GrammarId argument =
        grammar_.sequence({grammar_.literal(markers_.begin("argument key=")),
                           grammar_.add(std::move(key)), grammar_.choice(std::move(ways))});
    GrammarNode list = {Kind::repeat, {argument, argument}};
    any_ = grammar_.add(std::move(list));
    return *any_;
  }

  Grammar& grammar_;
  const K3Markers& markers_;
  GrammarId number_ = 0, header_end_ = 0, call_end_ = 0, argument_end_ = 0;
  std::optional<GrammarId> any_;
  std::deque<Json> schemas_;
};

}  // namespace

Result<K3Markers> K3Markers::create(Grammar& grammar, const Tokenizer& tokenizer) {
  const auto open = tokenizer.special_id("<|open|>");
  const auto close = tokenizer.special_id("<|close|>");
  const auto sep = tokenizer.special_id("<|sep|>");
  if (!open || !close || !sep) {
    return fail(ErrorKind::model_files, "the tokenizer lacks the markers of K3's chat format");
  }
  K3Markers markers;
  markers.close_id_ = *close;
  markers.open_ = grammar.marker(*open);
  markers.close_ = grammar.marker(*close);
  markers.sep_ = grammar.marker(*sep);
  return markers;
}

Symbols K3Markers::begin(std::string_view header) const {
  Symbols symbols = {open_};
  append(symbols, header);
  return symbols;
}

Symbols K3Markers::end(std::string_view header) const {
  Symbols symbols = symbols_of(header);
  symbols.push_back(sep_);
  return symbols;
}

Symbols K3Markers::open(std::string_view header) const {
  Symbols symbols = begin(header);
  symbols.push_back(sep_);
  return symbols;
}

Symbols K3Markers::close(std::string_view tag) const {
  Symbols symbols = {close_};
  append(symbols, tag);
  symbols.push_back(sep_);
  return symbols;
}

Result<GrammarId> k3_calls(Grammar& grammar, const K3Markers& markers, const Json& tools,
                           std::string_view schema_field) {
  CallsWriter writer(grammar, markers);
  std::vector<GrammarId> ways;
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    const std::string where =
        fmt::format("tools[{}].{}", function["name"].get_ref<const std::string&>(), schema_field);
    SLUICE_ASSIGN(const GrammarId call, writer.call(function, where));
    ways.push_back(call);
  }
  const GrammarId call = grammar.choice(std::move(ways));
  GrammarNode calls = {Kind::repeat, {call, call}};
  calls.least = 1;
  return grammar.add(std::move(calls));
}

}  // namespace sluice::text
