// The grammar of calls of tools in K3's format (SPEC 10).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar.h"
#include "text/json.h"
#include "text/tokenizer.h"

namespace sluice::text {

/// The special tokens of K3's format as symbols of a grammar.
class K3Markers {
 public:
  /// ErrorKind::model_files if the tokenizer lacks them. The grammar must outlive the markers.
  static Result<K3Markers> create(Grammar& grammar, const Tokenizer& tokenizer);

  /// Of the token that closes a section.
  std::int32_t close_id() const { return close_id_; }
  /// <|open|>HEADER<|sep|> and <|close|>TAG<|sep|>
  Symbols open(std::string_view header) const;
  Symbols close(std::string_view tag) const;
  /// The same in two parts, for headers with a part that is no fixed text.
  Symbols begin(std::string_view header) const;
  Symbols end(std::string_view header) const;

 private:
  Symbol open_ = 0, close_ = 0, sep_ = 0;
  std::int32_t close_id_ = 0;
};

/// One call or several of `tools`, a list as OpenAI's API has it. Arguments are well-formed. Where
/// a tool says `strict`, they are those of its `parameters`, a schema as
/// SchemaReader::read_members() takes it: in their order, all that are required, each as its schema
/// says. Messages name it by its tool and `schema_field`. ErrorKind::usage.
Result<GrammarId> k3_calls(Grammar& grammar, const K3Markers& markers, const Json& tools,
                           std::string_view schema_field);

}  // namespace sluice::text
