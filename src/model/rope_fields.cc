#include "model/rope_fields.h"

#include <fmt/format.h>

#include <cmath>

#include "model/config_limits.h"

namespace sluice::model {
namespace {

using Scaling = RopeConfig::Scaling;

constexpr double kMostFactor = 1e6;

Scaling scaling_of(Fields& fields) {
  const std::string old_type = fields.text_or("type", "default");
  const std::string type = fields.text_or("rope_type", old_type);
  if (type == "default") return Scaling::none;
  if (type == "linear") return Scaling::linear;
  if (type == "dynamic") return Scaling::dynamic;
  if (type == "llama3") return Scaling::llama3;
  if (type == "yarn") return Scaling::yarn;
  fields.fault("rope_type", fmt::format("'{}' is not supported, only default, linear, dynamic, "
                                        "llama3 and yarn",
                                        type.substr(0, 40)));
  return Scaling::none;
}

void read_llama3(Fields& fields, RopeConfig& rope) {
  rope.low_frequency_factor = fields.number("low_freq_factor", 1e-3, kMostFactor);
  rope.high_frequency_factor = fields.number("high_freq_factor", 1e-3, kMostFactor);
  if (rope.high_frequency_factor <= rope.low_frequency_factor) {
    fields.fault("high_freq_factor", "must be more than low_freq_factor");
  }
  rope.original_positions =
      static_cast<double>(fields.count("original_max_position_embeddings", 1, kMostPositions));
}

double yarn_sharpening(double factor, double scale) {
  return factor > 1 ? 0.1 * scale * std::log(factor) + 1 : 1;
}

void read_yarn(Fields& fields, std::size_t positions, RopeConfig& rope) {
  rope.original_positions = static_cast<double>(
      fields.count_or("original_max_position_embeddings", positions, 1, kMostPositions));
  rope.beta_fast = fields.optional_number("beta_fast", 1e-3, kMostFactor).value_or(32);
  rope.beta_slow = fields.optional_number("beta_slow", 1e-3, kMostFactor).value_or(1);
  rope.truncate = fields.flag_or("truncate", true);
  const auto scale = fields.optional_number("mscale", 0, kMostFactor);
  const auto all_scale = fields.optional_number("mscale_all_dim", 0, kMostFactor);
  if (scale.value_or(0) > 0 && all_scale.value_or(0) > 0) {
    rope.attention_factor =
        yarn_sharpening(rope.factor, *scale) / yarn_sharpening(rope.factor, *all_scale);
  }
  if (all_scale.value_or(0) > 0) {
    const double sharpening = yarn_sharpening(rope.factor, *all_scale);
    rope.score_factor = sharpening * sharpening;
  }
  const auto attention = fields.optional_number("attention_factor", 1e-3, 1e3);
  rope.attention_factor = attention.value_or(rope.attention_factor);
}

}  // namespace

std::size_t read_rope_scaling(Fields scaling, std::size_t positions, RopeConfig& rope) {
  rope.scaling = scaling_of(scaling);
  scaling.expect("partial_rotary_factor", 1.0);
  scaling.ignore({"rope_theta"});
  if (rope.scaling != Scaling::none) rope.factor = scaling.number("factor", 1, kMostFactor);
  if (rope.scaling == Scaling::llama3) read_llama3(scaling, rope);
  if (rope.scaling == Scaling::yarn) read_yarn(scaling, positions, rope);
  scaling.finish();
  if (rope.scaling != Scaling::dynamic) return positions;
  rope.original_positions = static_cast<double>(positions);
  return static_cast<std::size_t>(static_cast<double>(positions) * rope.factor);
}

void read_rope(MetadataReader& reader, std::size_t positions, RopeConfig& rope) {
  if (reader.count("rope.dimension_count", 2, 4096, rope.dim) != rope.dim) {
    reader.fault("rope.dimension_count", "heads that are rotated in part are not supported");
  }
  rope.base = reader.number("rope.freq_base", 1, 1e12, rope.base);
  const std::string type = reader.text("rope.scaling.type", "none");
  reader.ignore({"rope.scaling.finetuned"});
  const double old_factor = reader.number("rope.scale_linear", 1, kMostFactor, 1);
  rope.factor = reader.number("rope.scaling.factor", 1, kMostFactor, old_factor);
  const auto original =
      reader.count("rope.scaling.original_context_length", 1, kMostPositions, positions);
  const double attention = reader.number("rope.scaling.attn_factor", 1e-3, 1e3, 1);
  rope.beta_fast = reader.number("rope.scaling.yarn_beta_fast", 1e-3, kMostFactor, 32);
  rope.beta_slow = reader.number("rope.scaling.yarn_beta_slow", 1e-3, kMostFactor, 1);
  if (type == "yarn") {
    rope.scaling = Scaling::yarn;
    rope.original_positions = static_cast<double>(original);
    rope.attention_factor = attention * yarn_sharpening(rope.factor, 1);
  } else if (type == "linear" || (type == "none" && old_factor > 1)) {
    rope.scaling = Scaling::linear;
  } else if (type != "none") {
    reader.fault("rope.scaling.type", fmt::format("'{}' is not supported, only none, linear and "
                                                  "yarn",
                                                  type.substr(0, 40)));
  }
}

std::size_t read_rope(Fields& fields, std::size_t positions, RopeConfig& rope) {
  fields.expect("rope_interleaved", false);
  const bool together = fields.has("rope_parameters");
  const char* const name = together ? "rope_parameters" : "rope_scaling";
  if (!together) rope.base = fields.optional_number("rope_theta", 1, 1e12).value_or(rope.base);
  fields.ignore({"rope_parameters", "rope_scaling", "rope_theta"});
  if (!fields.has(name)) return positions;
  Fields scaling = fields.object(name);
  if (together) rope.base = scaling.number("rope_theta", 1, 1e12);
  return read_rope_scaling(std::move(scaling), positions, rope);
}

}  // namespace sluice::model
