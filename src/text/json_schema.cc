#include "text/json_schema.h"

#include "text/schema_reader.h"

namespace sluice::text {

Result<GrammarId> add_schema(Grammar& grammar, const Json& schema, const std::string& where) {
  return SchemaReader(grammar, schema, where).read();
}

Status close_grammar(Grammar& grammar, GrammarId root, const std::string& where) {
  switch (grammar.close(root)) {
    case Grammar::Fault::none:
      return {};
    case Grammar::Fault::nothing_fits:
      return fail(ErrorKind::usage, "{}: no JSON text fits it, or none with {} levels at most",
                  where, kGrammarDepth);
    case Grammar::Fault::left_recursive:
      return fail(ErrorKind::usage, "{}: a $ref leads to itself with nothing in between", where);
    case Grammar::Fault::too_large:
      return fail(ErrorKind::usage,
                  "{}: is too large: more than {} parts, or {} directly within each other", where,
                  Grammar::kMostNodes, Grammar::kMostChoices);
    case Grammar::Fault::too_many_ways:
      return fail(ErrorKind::usage, "{}: at one place there are more than {} alternatives", where,
                  Grammar::kMostWays);
  }
  return {};
}

}  // namespace sluice::text
