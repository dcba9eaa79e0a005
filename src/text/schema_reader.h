// Reads a JSON schema into a grammar.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/grammar.h"
#include "text/json.h"
#include "text/json_containers.h"

namespace sluice::text {

/// Schemas are read one after another, not within each other: each first is a choice of nothing,
/// which is filled in when its turn comes. So they may refer to each other as they like. Errors are
/// ErrorKind::usage and begin with the place of what is wrong.
class SchemaReader {
 public:
  /// The grammar and the schema must outlive the reader. `where` names the schema in messages.
  SchemaReader(Grammar& grammar, const Json& root, std::string where);

  /// What fits the whole schema.
  Result<GrammarId> read();

  /// Makes of a value's grammar what is written for it. `type` is one of JSON's: null, boolean,
  /// string, number, array, object.
  using Tag = std::function<GrammarId(std::string_view type, GrammarId value)>;
  /// The members of the object that the whole schema asks for, for those who write objects in
  /// another way than JSON. Their values are tagged, and those that are strings are written as they
  /// are, without quotes or escapes. The schema must be of an object, by itself and not by a
  /// reference, without additional properties.
  Result<std::vector<JsonMember>> read_members(Tag tag);

 private:
  enum class Form : std::uint8_t { json, tagged };
  struct Waiting {
    const Json* schema;
    Form form;
    std::string path;
    GrammarId id;
  };

  GrammarId node_of(const Json& schema, Form form, std::string path);
  GrammarId anything() { return node_of(anything_, Form::json, where_); }
  Status finish();
  tl::unexpected<Error> too_large() const;
  template <class List>
  Status only(const Json& schema, const std::string& path, const List& known,
              std::string_view beside = {}) const;
  Result<std::vector<GrammarId>> alternatives(const Json& schema, Form form,
                                              const std::string& path);
  Result<std::vector<GrammarId>> reference(const Json& reference, Form form,
                                           const std::string& path);
  Result<std::vector<GrammarId>> subschemas(const Json& list, Form form, const std::string& path,
                                            bool one);
  Result<const Json*> target(const std::string& reference, const std::string& path);
  Result<std::vector<GrammarId>> spelled(const Json& schema, Form form, const std::string& path,
                                         const Json& values);
  Result<std::vector<GrammarId>> of_types(const Json& schema, Form form, const std::string& path);
  Result<GrammarId> of_type(const Json& schema, Form form, const std::string& path,
                            std::string_view type);
  Result<GrammarId> array(const Json& schema, const std::string& path);
  Result<GrammarId> object(const Json& schema, const std::string& path);
  Result<std::vector<JsonMember>> members_of(const Json& schema, Form form, const std::string& path,
                                             GrammarId other);

  Grammar& grammar_;
  const Json& root_;
  const std::string where_;
  const Json anything_ = true;
  JsonContainers containers_;
  Tag tag_;
  std::map<std::pair<const Json*, Form>, GrammarId> nodes_;
  std::deque<Waiting> waiting_;
  std::map<std::string, const Json*> targets_;  // of references
};

}  // namespace sluice::text
