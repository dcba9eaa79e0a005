// Reading a model's config.json so that nothing in it goes unnoticed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::model {

/// Parses JSON text into an object in which no name stands twice. Fails with
/// ErrorKind::model_files, naming `where`.
Result<nlohmann::json> parse_object(const std::string& text, const std::string& where);

/// The value as a message shows it: short, and valid UTF-8 whatever the file holds.
std::string shown(const nlohmann::json& value);

/// One JSON object of a config, read field by field. Faults are collected in `faults`, each with
/// the field's full name. A field that nobody asked for is a fault too (finish()): what is not
/// understood is refused, never defaulted.
class Fields {
 public:
  /// `path` names the object in messages: "config.json: text_config".
  Fields(const nlohmann::json& object, std::string path, std::vector<std::string>& faults);

  bool has(std::string_view name) const;  ///< present and not null

  /// A whole number in [least, most]; a fault and `least` when missing or anything else.
  std::uint64_t count(std::string_view name, std::uint64_t least, std::uint64_t most);
  std::uint64_t count_or(std::string_view name, std::uint64_t absent, std::uint64_t least,
                         std::uint64_t most);
  double number(std::string_view name, double least, double most);
  std::optional<double> optional_number(std::string_view name, double least, double most);
  bool flag(std::string_view name);
  bool flag_or(std::string_view name, bool absent);
  std::string text(std::string_view name);
  std::string text_or(std::string_view name, std::string absent);
  std::vector<std::uint64_t> counts(std::string_view name, std::uint64_t most);

  /// A list of strings; empty and a fault when missing or anything else.
  std::vector<std::string> texts(std::string_view name);

  /// The field must be this value, or absent where `or_absent`; anything else is not supported.
  void expect(std::string_view name, const nlohmann::json& value, bool or_absent = true);

  /// The object `name`; an empty one and a fault when missing or of another kind.
  Fields object(std::string_view name);

  enum class Kind : std::uint8_t { text, flag, integer, number, list, object };
  /// Fields without meaning for the arithmetic. A value of another kind is a fault all the same:
  /// then the config means something that this reading of it does not know.
  void unused(Kind kind, std::initializer_list<std::string_view> names);

  /// Fields that are read elsewhere.
  void ignore(std::initializer_list<std::string_view> names);

  /// Adds a fault for every field that was not asked for.
  void finish();

  void fault(std::string_view name, std::string_view what);

 private:
  const nlohmann::json* get(std::string_view name);

  const nlohmann::json& object_;
  std::string path_;
  std::vector<std::string>& faults_;
  std::set<std::string, std::less<>> seen_;
};

/// Takes note of the fields that transformers writes into every config; none means anything to the
/// arithmetic.
void pass_boilerplate(Fields& fields);

}  // namespace sluice::model
