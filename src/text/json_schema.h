// A JSON schema made into a grammar of the texts that fit it.
#pragma once

#include <string>

#include "base/result.h"
#include "text/grammar.h"
#include "text/json.h"

namespace sluice::text {

/// Adds the JSON texts that fit `schema` to a grammar and returns their node. What is understood:
/// type, enum, const, properties, required, additionalProperties, items, minItems, maxItems,
/// minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum, anyOf, allOf of one,
/// $ref into the same schema, $defs, definitions, and annotations. Everything else fails with
/// ErrorKind::usage and a message that begins with its place: "WHERE.properties.name.pattern: ".
///
/// The texts are a part of those that fit: names of `properties` come in that order and before
/// others, whole numbers have at most 18 digits, white space is short, nesting ends at
/// kGrammarDepth. What is written always fits.
Result<GrammarId> add_schema(Grammar& grammar, const Json& schema, const std::string& where);

/// Closes a grammar that has a schema in it; what is wrong is said of the schema at `where`.
Status close_grammar(Grammar& grammar, GrammarId root, const std::string& where);

}  // namespace sluice::text
