#include "model/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/fields.h"

namespace sluice::model {
namespace {

constexpr double kMostAlpha = 1e9;

/// Says nothing: null, false, or empty.
bool is_off(const nlohmann::json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

/// A pattern is a regular expression to PEFT. Those that are in use are names of modules, in which
/// a dot is a dot; others are refused rather than half understood.
bool is_name(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '-';
  });
}

/// `ordered`: the file once more, for the first pattern that names a module counts.
AdapterConfig::Pattern read_pattern(Fields& fields, const nlohmann::ordered_json& ordered,
                                    std::string_view name, double least, double most) {
  AdapterConfig::Pattern pattern;
  if (!fields.has(name)) return pattern;
  Fields entries = fields.object(name);
  const nlohmann::ordered_json& object = ordered.at(std::string(name));
  if (!object.is_object()) return pattern;
  for (const auto& [key, value] : object.items()) {
    if (!is_name(key)) {
      entries.fault(shown(key), "patterns are not supported, only names of modules");
      entries.ignore({key});
      continue;
    }
    pattern.emplace_back(key, entries.number(key, least, most));
  }
  return pattern;
}

void read_targets(Fields& fields, const nlohmann::json& root, AdapterConfig& config) {
  const auto targets = root.find("target_modules");
  if (targets != root.end() && targets->is_string()) {
    fields.ignore({"target_modules"});  // a pattern, or all-linear: the tensors tell what it met
    return;
  }
  config.targets = fields.texts("target_modules");
  config.targets_all = true;
  for (const std::string_view narrower : {"exclude_modules", "layers_to_transform"}) {
    const auto value = root.find(narrower);
    if (value != root.end() && !is_off(*value)) config.targets_all = false;
  }
}

/// What changes the model in other ways than by a pair of matrices beside another.
void refuse_others(Fields& fields, const nlohmann::json& root) {
  fields.expect("peft_type", "LORA", false);
  fields.expect("bias", "none");
  fields.expect("fan_in_fan_out", false);
  if (fields.has("task_type")) fields.expect("task_type", "CAUSAL_LM");
  for (const std::string_view name :
       {"use_dora", "modules_to_save", "lora_bias", "layer_replication", "trainable_token_indices",
        "target_parameters", "alora_invocation_tokens", "arrow_config", "use_qalora",
        "ensure_weight_tying"}) {
    const auto value = root.find(name);
    if (value != root.end() && !is_off(*value)) {
      fields.fault(name, fmt::format("{} is not supported", shown(*value)));
    }
    fields.ignore({name});
  }
  // These begin with other weights of the base model than it is released with.
  const auto start = root.find("init_lora_weights");
  if (start != root.end() && start->is_string() && *start != "gaussian" && *start != "eva" &&
      *start != "orthogonal") {
    fields.fault("init_lora_weights",
                 fmt::format("{} changes the base model's weights; convert the adapter to a plain "
                             "one with PEFT",
                             shown(*start)));
  }
  fields.ignore({"init_lora_weights"});
}

/// Fields without meaning once the adapter is trained, and those that a later PEFT has added and
/// that are off.
void pass_others(Fields& fields, const nlohmann::json& root) {
  fields.ignore({"task_type", "exclude_modules", "layers_to_transform", "layers_pattern",
                 "auto_mapping", "base_model_name_or_path", "inference_mode", "lora_dropout",
                 "revision", "peft_version", "megatron_config", "megatron_core",
                 "qalora_group_size", "loftq_config", "eva_config", "corda_config",
                 "lora_ga_config", "runtime_config"});
  for (const auto& [name, value] : root.items()) {
    if (is_off(value)) fields.ignore({name});
  }
}

/// The value of the pattern that names the module.
std::optional<double> value_for(const AdapterConfig::Pattern& pattern, std::string_view module) {
  for (const auto& [name, value] : pattern) {
    if (names_module(name, module)) return value;
  }
  return std::nullopt;
}

}  // namespace

bool names_module(std::string_view name, std::string_view module) {
  if (!module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

std::size_t AdapterConfig::rank_of(std::string_view module) const {
  const auto value = value_for(ranks, module);
  return value ? static_cast<std::size_t>(*value) : rank;
}

float AdapterConfig::scale_of(std::string_view module) const {
  const auto r = static_cast<double>(rank_of(module));
  return static_cast<float>(value_for(alphas, module).value_or(alpha) /
                            (root_scaled ? std::sqrt(r) : r));
}

bool AdapterConfig::is_target(std::string_view module) const {
  return std::ranges::any_of(
      targets, [&](const std::string& target) { return names_module(target, module); });
}

Result<AdapterConfig> parse_adapter_config(const std::string& text,
                                           std::vector<std::string>& faults) {
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, "adapter_config.json"));
  Fields fields(root, "adapter_config.json", faults);
  AdapterConfig config;
  refuse_others(fields, root);
  config.rank = fields.count("r", 1, kMostRank);
  config.alpha = fields.number("lora_alpha", -kMostAlpha, kMostAlpha);
  config.root_scaled = fields.flag_or("use_rslora", false);
  const nlohmann::ordered_json ordered = nlohmann::ordered_json::parse(text, nullptr, false);
  config.ranks = read_pattern(fields, ordered, "rank_pattern", 1, kMostRank);
  config.alphas = read_pattern(fields, ordered, "alpha_pattern", -kMostAlpha, kMostAlpha);
  for (const auto& [name, rank] : config.ranks) {
    if (rank != std::floor(rank)) {
      fields.fault("rank_pattern", fmt::format("{} is no whole number", rank));
    }
  }
  read_targets(fields, root, config);
  pass_others(fields, root);
  fields.finish();
  return config;
}

}  // namespace sluice::model
