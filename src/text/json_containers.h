// The grammar of JSON's arrays and objects, out of the grammars of what is in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar.h"

namespace sluice::text {

/// A member of an object that is declared by name.
struct JsonMember {
  std::string name;
  GrammarId value;
  bool required;
};

class JsonContainers {
 public:
  /// The grammar must outlive this.
  explicit JsonContainers(Grammar& grammar);

  /// `least` to `most` times `item` in brackets.
  GrammarId array(GrammarId item, std::uint32_t least, std::uint32_t most);

  /// Members in their order, then any number of others with `other` as their value. None if the
  /// grammar became too large meanwhile.
  std::optional<GrammarId> object(const std::vector<JsonMember>& members, GrammarId other);

 private:
  GrammarId nested(std::string_view bracket, GrammarId rest);
  GrammarId other_pair(const std::vector<JsonMember>& members, GrammarId value, GrammarId behind);

  Grammar& grammar_;
  GrammarId space_;
  GrammarId comma_;
};

/// What may be between the parts of a JSON text: as much white space as people put there.
GrammarId add_whitespace(Grammar& grammar);

}  // namespace sluice::text
