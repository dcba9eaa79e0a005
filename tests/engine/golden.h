// The golden vectors of a checkpoint, and running an engine over them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace sluice::engine {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(SLUICE_SOURCE_DIR) / "tests" / "golden" / name;
}

inline std::filesystem::path checkpoint_folder(const std::string& name) {
  if (name == "k3-nano") return std::filesystem::path(SLUICE_SOURCE_DIR) / "models" / name;
  return golden_folder(name) / "checkpoint";
}

/// A checkpoint's name as that of a test, which takes letters, digits and underscores only.
inline std::string test_name(std::string checkpoint) {
  std::replace(checkpoint.begin(), checkpoint.end(), '-', '_');
  return checkpoint;
}

inline nlohmann::json read_golden(const std::string& name) {
  std::ifstream in(golden_folder(name) / "golden.json");
  return nlohmann::json::parse(in);
}

/// The floats of a golden's .bin file.
inline std::vector<float> read_floats(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

/// Everything that a feed() shows, put together over its chunks.
struct Trace {
  std::vector<float> logits;                                   // [positions, vocabulary]
  std::vector<float> hidden;                                   // [layers, positions, hidden]
  std::vector<std::vector<std::vector<std::int32_t>>> routes;  // [layer][position][pick]
};

inline bool same_bits(const Trace& a, const Trace& b) {
  return a.logits.size() == b.logits.size() && a.hidden.size() == b.hidden.size() &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0 &&
         std::memcmp(a.hidden.data(), b.hidden.data(), a.hidden.size() * sizeof(float)) == 0 &&
         a.routes == b.routes;
}

/// Tokens to feed where it does not matter which.
inline const std::vector<std::int32_t> kShortPrompt = {3, 141, 59, 26, 53, 58};
inline const std::vector<std::int32_t> kPrompt = {3, 141, 59, 26, 53, 58, 97};

/// Plenty, however short the machine's memory is: nothing that was kept is given back.
class PlentyOfMemory final : public MemorySource {
 public:
  MemorySigns look() override { return {std::uint64_t{64} << 30, std::uint64_t{1} << 30, 0, 0}; }
};

/// For a checkpoint and the short texts of the tests.
inline EngineOptions options_for(const std::string& name, EngineOptions options = {}) {
  options.model = checkpoint_folder(name);
  options.context = std::min<std::size_t>(options.context, 256);
  return options;
}

inline Result<std::unique_ptr<Engine>> open_engine(const std::string& name,
                                                   EngineOptions options = {}) {
  return Engine::open(options_for(name, std::move(options)));
}

/// Feeds the tokens to a new sequence and keeps what comes out. The engine needs all_logits.
inline Result<Trace> trace(Engine& engine, const std::vector<std::int32_t>& tokens) {
  const model::Shape& shape = engine.shape();
  Trace trace;
  trace.hidden.resize(shape.layers * tokens.size() * shape.hidden);
  trace.routes.resize(shape.layers);
  FeedOptions options;
  options.on_logits = [&](std::size_t, std::span<const float> logits) -> Status {
    trace.logits.insert(trace.logits.end(), logits.begin(), logits.end());
    return {};
  };
  options.on_hidden = [&](std::size_t first, std::size_t layer,
                          std::span<const float> hidden) -> Status {
    std::copy(hidden.begin(), hidden.end(),
              trace.hidden.begin() +
                  static_cast<std::ptrdiff_t>((layer * tokens.size() + first) * shape.hidden));
    return {};
  };
  options.on_routes = [&](std::size_t, std::size_t layer,
                          std::span<const std::int32_t> ids) -> Status {
    for (std::size_t at = 0; at < ids.size(); at += shape.top_k) {
      const auto picks = ids.subspan(at, shape.top_k);
      trace.routes[layer].emplace_back(picks.begin(), picks.end());
    }
    return {};
  };
  SLUICE_ASSIGN(const auto sequence, engine.new_sequence());
  SLUICE_TRY(engine.feed(*sequence, tokens, options));
  return trace;
}

}  // namespace sluice::engine
