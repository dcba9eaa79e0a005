#include "server/openai_common.h"

#include <charconv>
#include <optional>

#include "server/request_parts.h"

namespace sluice::server {
namespace {

constexpr std::int64_t kMostChoices = 16;
constexpr std::size_t kMostStops = 16;
constexpr std::size_t kMostBiases = 1024;

ApiStatus read_bias(Fields& fields, const ServedModel& model, text::SamplingOptions& sampling) {
  const Json* const bias = fields.get("logit_bias");
  if (bias == nullptr) return {};
  if (!bias->is_object() || bias->size() > kMostBiases) {
    return refuse("logit_bias", "must be an object of at most {} token ids", kMostBiases);
  }
  for (const auto& [name, value] : bias->items()) {
    std::int32_t id = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data(), end, id);
    if (error != std::errc() || rest != end || id < 0 ||
        static_cast<std::size_t>(id) >= model.vocabulary) {
      return refuse("logit_bias", "\"{}\" is not a token id below {}", name.substr(0, 40),
                    model.vocabulary);
    }
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      return refuse("logit_bias", "the bias of token {} must be a number from -100 to 100", id);
    }
    sampling.bias.emplace_back(id, value.get<float>());
  }
  return {};
}

ApiStatus read_sampling(Fields& fields, const ServedModel& model, text::SamplingOptions& sampling) {
  const auto take = [](const std::optional<double>& value, float& target) {
    if (value) target = static_cast<float>(*value);
  };
  SLUICE_ASSIGN(const auto temperature, fields.number("temperature", 0, 2));
  take(temperature, sampling.temperature);
  SLUICE_ASSIGN(const auto top_p, fields.number("top_p", 0, 1));
  take(top_p, sampling.top_p);
  SLUICE_ASSIGN(const auto min_p, fields.number("min_p", 0, 1));
  take(min_p, sampling.min_p);
  SLUICE_ASSIGN(const auto top_k, fields.integer("top_k", 0, INT32_MAX));
  if (top_k) sampling.top_k = static_cast<int>(*top_k);
  SLUICE_ASSIGN(const auto presence, fields.number("presence_penalty", -2, 2));
  take(presence, sampling.presence_penalty);
  SLUICE_ASSIGN(const auto frequency, fields.number("frequency_penalty", -2, 2));
  take(frequency, sampling.frequency_penalty);
  SLUICE_ASSIGN(const auto seed, fields.integer("seed", INT64_MIN, INT64_MAX));
  if (seed) sampling.seed = static_cast<std::uint64_t>(*seed);
  return read_bias(fields, model, sampling);
}

}  // namespace

ApiStatus read_common(Fields& fields, const ServedModel& model, OpenAiRequest& request) {
  SLUICE_ASSIGN(request.generation.adapter, read_model(fields, model));
  SLUICE_TRY(read_sampling(fields, model, request.generation.sampling));
  SLUICE_ASSIGN(request.generation.form.stops, fields.texts("stop", kMostStops));
  SLUICE_ASSIGN(const auto choices, fields.integer("n", 1, kMostChoices));
  request.generation.choices = static_cast<std::size_t>(choices.value_or(1));
  SLUICE_ASSIGN(const auto user, fields.text("user"));
  request.user = user.value_or("").substr(0, 256);
  SLUICE_ASSIGN(const auto stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  const Json* const options = fields.get("stream_options");
  if (options == nullptr) return {};
  if (!request.stream) return refuse("stream_options", "needs \"stream\": true");
  if (!options->is_object()) return refuse("stream_options", "must be an object");
  Fields inner(*options, "stream_options");
  SLUICE_ASSIGN(const auto usage, inner.boolean("include_usage"));
  request.include_usage = usage.value_or(false);
  SLUICE_TRY(inner.only("include_obfuscation", {false}));
  return inner.finish();
}

}  // namespace sluice::server
