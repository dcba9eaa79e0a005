// Adapters that cannot be used: each is refused with what is wrong, all of it at once.
#include <functional>
#include <string>

#include "engine/adapter_support.h"

namespace sluice::engine {
namespace {

const std::string kFirst = "base_model.model.model.layers.0.self_attn.q_proj";

class BadAdapter : public ::testing::Test {
 protected:
  BadAdapter() : adapter_(checkpoint_folder("llama-tiny"), {"q_proj", "down_proj"}, 3) {}

  Error open() {
    EngineOptions options = options_for("llama-tiny");
    options.adapters = {{"x", adapter_.folder()}};
    const auto engine = Engine::open(options);
    EXPECT_FALSE(engine);
    return engine ? Error{} : engine.error();
  }

  /// Opened after the change it is refused so.
  void expect(const std::string& text, ErrorKind kind = ErrorKind::model_files) {
    adapter_.write();
    const Error error = open();
    EXPECT_EQ(error.kind, kind);
    EXPECT_NE(error.message.find(text), std::string::npos) << text << "\n" << error.message;
  }

  void move(const std::string& from, const std::string& to) {
    auto node = adapter_.file.tensors.extract(from);
    ASSERT_FALSE(node.empty());
    node.key() = to;
    adapter_.file.tensors.insert(std::move(node));
  }

  TestAdapter adapter_;
};

TEST_F(BadAdapter, IsGoodAtFirst) {
  EngineOptions options = options_for("llama-tiny");
  options.adapters = {{"x", adapter_.folder()}};
  EXPECT_TRUE(Engine::open(options));
}

TEST_F(BadAdapter, WhatTheConfigurationAsksForThatThereIsNot) {
  const nlohmann::ordered_json good = adapter_.config;
  const std::vector<std::tuple<std::string, nlohmann::ordered_json, std::string>> faults = {
      {"peft_type", "LOHA", "peft_type: \"LOHA\" is not supported, only \"LORA\""},
      {"bias", "all", "bias: \"all\" is not supported, only \"none\""},
      {"use_dora", true, "use_dora: true is not supported"},
      {"fan_in_fan_out", true, "fan_in_fan_out: true is not supported, only false"},
      {"modules_to_save", {"lm_head"}, "modules_to_save: a list is not supported"},
      {"lora_bias", true, "lora_bias: true is not supported"},
      {"trainable_token_indices", {1, 2}, "trainable_token_indices: a list is not supported"},
      {"target_parameters", {"experts"}, "target_parameters: a list is not supported"},
      {"task_type", "SEQ_CLS", "task_type: \"SEQ_CLS\" is not supported"},
      {"init_lora_weights", "pissa", "init_lora_weights: \"pissa\" changes the base model"},
      {"r", 0, "r: expected a whole number from 1"},
      {"r", -4, "r: expected a whole number from 1"},
      {"r", 1e300, "r: expected a whole number from 1"},
      {"lora_alpha", "much", "lora_alpha: expected a number"},
      {"use_rslora", 1, "use_rslora: expected true or false"},
      {"rank_pattern", {{"q_proj", 2.5}}, "rank_pattern: 2.5 is no whole number"},
      {"rank_pattern", {{"(q|k)_proj", 2}}, "patterns are not supported, only names of modules"},
      {"alpha_pattern", 3, "alpha_pattern: expected an object"},
      {"target_modules", {"q_proj", "down_proj", "x_proj"}, "target_modules: 'x_proj'"},
      {"target_modules", {"down_proj"}, "target_modules of adapter_config.json does not name it"},
      {"target_modules", {"q_proj", "down_proj", "o_proj"}, "o_proj': its tensors are missing"},
      {"a_new_thing", {{"on", true}}, "a_new_thing: not understood"}};
  for (const auto& [field, value, text] : faults) {
    adapter_.config = good;
    adapter_.config[field] = value;
    expect("adapter_config.json");
    expect(text);
  }
  adapter_.config = good;
  adapter_.config.erase("r");
  expect("r: missing");
}

TEST_F(BadAdapter, WhatALaterPeftAddsAndDoesNotUse) {
  adapter_.config["a_new_thing"] = nullptr;
  adapter_.config["another"] = false;
  adapter_.config["eva_config"] = {{"rho", 2.0}};
  adapter_.write();
  EngineOptions options = options_for("llama-tiny");
  options.adapters = {{"x", adapter_.folder()}};
  const auto engine = Engine::open(options);
  EXPECT_TRUE(engine) << engine.error().message;
}

TEST_F(BadAdapter, TensorsThatAreNotThoseOfTheModel) {
  const TensorFile good = adapter_.file;
  const auto changed = [&](const std::function<void()>& change, const std::string& text) {
    adapter_.file = good;
    change();
    expect(text);
  };
  const std::string a = kFirst + ".lora_A.weight";
  const std::string b = kFirst + ".lora_B.weight";
  changed([&] { adapter_.file.tensors.erase(a); }, a + "': missing; the adapter is incomplete");
  changed([&] { adapter_.file.tensors.erase(b); }, b + "': missing");
  changed(
      [&] {
        adapter_.file.add(a, {2, 32}, std::vector<float>(64));
      },
      "shape [2, 32], but the model and adapter_config.json make it [4, 32]");
  changed(
      [&] {
        adapter_.file.add(b, {4, 32}, std::vector<float>(128));
      },
      "shape [4, 32], but the model and adapter_config.json make it [32, 4]");
  changed(
      [&] {
        adapter_.file.tensors[a] = {"F64", {4, 32}, std::string(1024, '\0')};
      },
      "type F64 where F32, F16 or BF16 is expected");
  changed([&] { adapter_.file.add("base_model.model.lm_head.weight", {1}, {1.0f}); },
          "tensor 'base_model.model.lm_head.weight': not supported");
  changed([&] { adapter_.file.add(kFirst + ".lora_magnitude_vector", {1}, {1.0f}); },
          "lora_magnitude_vector': not supported");
  changed([&] { adapter_.file.add(kFirst + ".lora_B.bias", {1}, {1.0f}); }, "not supported");
  changed([&] { adapter_.file.tensors.clear(); }, "adapter_model.safetensors");
}

TEST_F(BadAdapter, ModulesWithoutAPlaceForIt) {
  const TensorFile good = adapter_.file;
  const auto renamed = [&](const std::string& module, const std::string& text) {
    adapter_.file = good;
    for (const char* end : {".lora_A.weight", ".lora_B.weight"}) {
      move(kFirst + end, "base_model.model." + module + end);
    }
    expect(text);
  };
  renamed("model.layers.7.self_attn.q_proj", "the model has no such projection");
  renamed("lm_head", "the embedding and the output head are not supported");
  renamed("model.embed_tokens", "the embedding and the output head are not supported");
  renamed("model.layers.0.mlp.experts.3.q_proj", "adapters on routed experts are not supported");
  renamed("model.layers.0.self_attn.kv_b_proj", "adapters on kv_b_proj are not supported");
}

TEST_F(BadAdapter, AllThatIsWrongIsListedAtOnce) {
  adapter_.config["use_dora"] = true;
  adapter_.config["bias"] = "all";
  adapter_.file.add(kFirst + ".lora_B.bias", {1}, {1.0f});
  adapter_.file.add("base_model.model.lm_head.lora_A.weight", {1}, {1.0f});
  for (const char* text : {"use_dora", "bias: \"all\"", "lora_B.bias", "output head",
                           "4 faults in its files", "the adapter "}) {
    expect(text);
  }
}

TEST_F(BadAdapter, FilesThatAreNotThereOrDamaged) {
  const auto weights = adapter_.folder() / "adapter_model.safetensors";
  const auto config = adapter_.folder() / "adapter_config.json";
  const auto refused = [&](const std::string& text) {
    const Error error = open();
    EXPECT_EQ(error.kind, ErrorKind::model_files);
    EXPECT_NE(error.message.find(text), std::string::npos) << text << "\n" << error.message;
  };
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 8);
  refused("adapter_model.safetensors");
  std::ofstream(weights) << "not a header";
  refused("adapter_model.safetensors");
  std::filesystem::remove(weights);
  refused("no such file in");
  adapter_.write();
  std::ofstream(config) << "{\"r\": ";
  refused("adapter_config.json: not valid JSON");
  std::ofstream(config) << "[]";
  refused("adapter_config.json: not a JSON object");
  std::filesystem::remove(config);
  refused("adapter_config.json");
}

TEST_F(BadAdapter, NumbersThatAreNotFiniteAreNamedAsTheAdapters) {
  adapter_.file.add(kFirst + ".lora_A.weight", {4, 32},
                    std::vector<float>(128, std::numeric_limits<float>::quiet_NaN()));
  adapter_.write();
  EngineOptions options = options_for("llama-tiny");
  options.adapters = {{"x", adapter_.folder()}};
  const auto engine = Engine::open(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto sequence = (*engine)->new_sequence(1);
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const auto fed = (*engine)->feed(**sequence, tokens);
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().kind, ErrorKind::number);
  EXPECT_NE(fed.error().message.find("the adapter "), std::string::npos);
  const auto other = (*engine)->new_sequence();
  EXPECT_TRUE((*engine)->feed(**other, tokens)) << "the model goes on without it";
}

TEST_F(BadAdapter, NamesAndModelsThatAreNoGood) {
  EngineOptions options = options_for("llama-tiny");
  for (const auto& names : std::vector<std::vector<std::string>>{{""}, {"a b"}, {"a", "a"}}) {
    options.adapters.clear();
    for (const std::string& name : names) options.adapters.push_back({name, adapter_.folder()});
    const auto engine = Engine::open(options);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().kind, ErrorKind::usage);
  }
  EngineOptions gguf = options_for("gguf-plain-tiny");
  gguf.adapters = {{"x", adapter_.folder()}};
  const auto engine = Engine::open(gguf);
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().message.find("safetensors"), std::string::npos);
}

}  // namespace
}  // namespace sluice::engine
