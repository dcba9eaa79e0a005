// Reads a JSON schema into a grammar.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
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

 private:
  struct Waiting {
    const Json* schema;
    std::string path;
    GrammarId id;
  };

  GrammarId node_of(const Json& schema, std::string path);
  GrammarId anything() { return node_of(anything_, where_); }
  Status finish();
  template <class List>
  Status only(const Json& schema, const std::string& path, const List& known,
              std::string_view beside = {}) const;
  Result<std::vector<GrammarId>> alternatives(const Json& schema, const std::string& path);
  Result<std::vector<GrammarId>> reference(const Json& reference, const std::string& path);
  Result<std::vector<GrammarId>> subschemas(const Json& list, const std::string& path, bool one);
  Result<const Json*> target(const std::string& reference, const std::string& path);
  Result<std::vector<GrammarId>> spelled(const Json& schema, const std::string& path,
                                         const Json& values);
  Result<std::vector<GrammarId>> of_types(const Json& schema, const std::string& path);
  Result<GrammarId> of_type(const Json& schema, const std::string& path, std::string_view type);
  Result<GrammarId> array(const Json& schema, const std::string& path);
  Result<GrammarId> object(const Json& schema, const std::string& path);
  Result<std::vector<JsonMember>> members_of(const Json& schema, const std::string& path,
                                             GrammarId other);

  Grammar& grammar_;
  const Json& root_;
  const std::string where_;
  const Json anything_ = true;
  JsonContainers containers_;
  std::map<const Json*, GrammarId> nodes_;
  std::deque<Waiting> waiting_;
  std::map<std::string, const Json*> targets_;  // of references
};

}  // namespace sluice::text
