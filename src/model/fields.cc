#include "model/fields.h"

#include <cmath>
#include <utility>

namespace sluice::model {
namespace {

const nlohmann::json& empty_object() {
  static const nlohmann::json empty = nlohmann::json::object();
  return empty;
}

bool is_of(Fields::Kind kind, const nlohmann::json& value) {
  switch (kind) {
    case Fields::Kind::text:
      return value.is_string();
    case Fields::Kind::flag:
      return value.is_boolean();
    case Fields::Kind::integer:
      return value.is_number_integer();
    case Fields::Kind::number:
      return value.is_number();
    case Fields::Kind::list:
      return value.is_array();
    case Fields::Kind::object:
      return value.is_object();
  }
  return false;
}

const char* name_of(Fields::Kind kind) {
  switch (kind) {
    case Fields::Kind::text:
      return "a string";
    case Fields::Kind::flag:
      return "true or false";
    case Fields::Kind::integer:
      return "a whole number";
    case Fields::Kind::number:
      return "a number";
    case Fields::Kind::list:
      return "a list";
    case Fields::Kind::object:
      return "an object";
  }
  return "?";
}

}  // namespace

std::string shown(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

Result<nlohmann::json> parse_object(const std::string& text, const std::string& where) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> names;  // of the objects that are open
  std::optional<std::string> twice;
  const auto watch = [&](int, Event event, const nlohmann::json& parsed) {
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second && !twice) {
      twice = shown(parsed);
    }
    return true;
  };
  nlohmann::json value = nlohmann::json::parse(text, watch, false);
  if (value.is_discarded()) {
    return fail(ErrorKind::model_files, "{}: not valid JSON; download the file again", where);
  }
  if (!value.is_object()) {
    return fail(ErrorKind::model_files, "{}: not a JSON object", where);
  }
  if (twice) {
    return fail(ErrorKind::model_files,
                "{}: the name {} stands twice in one object, and which one counts is not certain; "
                "download the file again",
                where, *twice);
  }
  return value;
}

Fields::Fields(const nlohmann::json& object, std::string path, std::vector<std::string>& faults)
    : object_(object), path_(std::move(path)), faults_(faults) {}

void Fields::fault(std::string_view name, std::string_view what) {
  faults_.push_back(fmt::format("{}: {}: {}", path_, name, what));
}

bool Fields::has(std::string_view name) const {
  const auto found = object_.find(name);
  return found != object_.end() && !found->is_null();
}

const nlohmann::json* Fields::get(std::string_view name) {
  seen_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::uint64_t Fields::count(std::string_view name, std::uint64_t least, std::uint64_t most) {
  const nlohmann::json* value = get(name);
  if (value == nullptr) {
    fault(name, "missing; a missing field is never guessed");
    return least;
  }
  const bool whole = value->is_number_unsigned();
  if (!whole || value->get<std::uint64_t>() < least || value->get<std::uint64_t>() > most) {
    fault(name, fmt::format("expected a whole number from {} to {}, found {}", least, most,
                            shown(*value)));
    return least;
  }
  return value->get<std::uint64_t>();
}

std::uint64_t Fields::count_or(std::string_view name, std::uint64_t absent, std::uint64_t least,
                               std::uint64_t most) {
  return get(name) == nullptr ? absent : count(name, least, most);
}

double Fields::number(std::string_view name, double least, double most) {
  const nlohmann::json* value = get(name);
  if (value == nullptr) {
    fault(name, "missing; a missing field is never guessed");
    return least;
  }
  if (!value->is_number() || !(value->get<double>() >= least) || !(value->get<double>() <= most)) {
    fault(name,
          fmt::format("expected a number from {} to {}, found {}", least, most, shown(*value)));
    return least;
  }
  return value->get<double>();
}

std::optional<double> Fields::optional_number(std::string_view name, double least, double most) {
  if (get(name) == nullptr) return std::nullopt;
  return number(name, least, most);
}

bool Fields::flag(std::string_view name) {
  if (get(name) == nullptr) {
    fault(name, "missing; a missing field is never guessed");
    return false;
  }
  return flag_or(name, false);
}

bool Fields::flag_or(std::string_view name, bool absent) {
  const nlohmann::json* value = get(name);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) {
    fault(name, fmt::format("expected true or false, found {}", shown(*value)));
    return absent;
  }
  return value->get<bool>();
}

std::string Fields::text(std::string_view name) {
  if (get(name) == nullptr) {
    fault(name, "missing; a missing field is never guessed");
    return {};
  }
  return text_or(name, {});
}

std::string Fields::text_or(std::string_view name, std::string absent) {
  const nlohmann::json* value = get(name);
  if (value == nullptr) return absent;
  if (!value->is_string()) {
    fault(name, fmt::format("expected a string, found {}", shown(*value)));
    return absent;
  }
  return value->get<std::string>();
}

std::vector<std::uint64_t> Fields::counts(std::string_view name, std::uint64_t most) {
  std::vector<std::uint64_t> list;
  const nlohmann::json* value = get(name);
  if (value == nullptr || !value->is_array()) {
    fault(name, fmt::format("expected a list of whole numbers, found {}",
                            value == nullptr ? "nothing" : shown(*value)));
    return list;
  }
  for (const auto& item : *value) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > most) {
      fault(name, fmt::format("expected whole numbers up to {}, found {}", most, shown(item)));
      return {};
    }
    list.push_back(item.get<std::uint64_t>());
  }
  return list;
}

std::vector<std::string> Fields::texts(std::string_view name) {
  std::vector<std::string> list;
  const nlohmann::json* value = get(name);
  for (const auto& item : value != nullptr && value->is_array() ? *value : nlohmann::json()) {
    if (item.is_string()) list.push_back(item.get<std::string>());
  }
  if (value == nullptr || !value->is_array() || list.size() != value->size()) {
    fault(name, fmt::format("expected a list of strings, found {}",
                            value == nullptr ? "nothing" : shown(*value)));
    return {};
  }
  return list;
}

void Fields::expect(std::string_view name, const nlohmann::json& value, bool or_absent) {
  const nlohmann::json* found = get(name);
  if (found == nullptr && (or_absent || value.is_null())) return;
  if (found == nullptr) {
    fault(name, fmt::format("missing; expected {}", shown(value)));
  } else if (*found != value) {
    fault(name, fmt::format("{} is not supported, only {}", shown(*found), shown(value)));
  }
}

Fields Fields::object(std::string_view name) {
  const nlohmann::json* value = get(name);
  if (value == nullptr || !value->is_object()) {
    fault(name, value == nullptr ? "missing; expected an object"
                                 : fmt::format("expected an object, found {}", shown(*value)));
    value = &empty_object();
  }
  return {*value, fmt::format("{}: {}", path_, name), faults_};
}

void Fields::unused(Kind kind, std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    const nlohmann::json* value = get(name);
    if (value == nullptr || is_of(kind, *value)) continue;
    fault(name, fmt::format("expected {}, found {}", name_of(kind), shown(*value)));
  }
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  for (const auto name : names) seen_.emplace(name);
}

void Fields::finish() {
  for (const auto& [name, value] : object_.items()) {
    if (seen_.contains(name)) continue;
    const std::string text = name.substr(0, 80);
    fault(text, fmt::format("not understood (value {}); this model may need a newer Sluice",
                            shown(value)));
  }
}

namespace {

using Kind = Fields::Kind;

/// Defaults for generation, which the user's own settings replace.
void pass_generation_defaults(Fields& fields) {
  fields.unused(Kind::flag, {"do_sample"});
  fields.unused(Kind::integer, {"encoder_no_repeat_ngram_size", "forced_bos_token_id", "max_length",
                                "min_length", "no_repeat_ngram_size", "num_beam_groups",
                                "num_beams", "num_return_sequences", "top_k"});
  fields.unused(Kind::number, {"diversity_penalty", "length_penalty", "repetition_penalty",
                               "temperature", "top_p", "typical_p"});
  fields.unused(Kind::list, {"bad_words_ids", "begin_suppress_tokens", "suppress_tokens",
                             "exponential_decay_length_penalty"});
  fields.ignore({"early_stopping", "forced_eos_token_id"});  // of more than one kind by design
}

}  // namespace

void pass_boilerplate(Fields& fields) {
  fields.unused(Kind::text,
                {"_name_or_path", "dtype", "torch_dtype", "transformers_version", "model_type",
                 "problem_type", "prefix", "finetuning_task", "tokenizer_class"});
  fields.unused(Kind::flag,
                {"use_cache", "return_dict", "return_dict_in_generate", "output_attentions",
                 "output_hidden_states", "output_scores", "use_bfloat16", "tf_legacy_loss",
                 "torchscript", "is_decoder", "remove_invalid_values"});
  fields.unused(Kind::integer, {"bos_token_id", "pad_token_id", "sep_token_id",
                                "decoder_start_token_id", "chunk_size_feed_forward"});
  fields.unused(Kind::number, {"initializer_range"});
  fields.unused(Kind::list, {"architectures"});
  fields.unused(Kind::object, {"auto_map", "id2label", "label2id", "task_specific_params"});
  fields.ignore({"eos_token_id"});  // read_end_ids()
  pass_generation_defaults(fields);
  fields.expect("add_cross_attention", false);
  fields.expect("cross_attention_hidden_size", nullptr);
  fields.expect("is_encoder_decoder", false);
  fields.expect("tie_encoder_decoder", false);
  fields.expect("pruned_heads", nlohmann::json::object());
}

}  // namespace sluice::model
