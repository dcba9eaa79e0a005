// Adapters of random weights, and checkpoints into which they are merged.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/golden.h"
#include "store/checkpoint.h"

namespace sluice::engine {

/// A safetensors file in the making.
struct TensorFile {
  struct Entry {
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };
  std::map<std::string, Entry> tensors;

  void add(const std::string& name, std::vector<std::uint64_t> shape,
           const std::vector<float>& values) {
    tensors[name] = {
        "F32", std::move(shape),
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
  }

  void write(const std::filesystem::path& path) const {
    nlohmann::ordered_json header;
    std::uint64_t end = 0;
    for (const auto& [name, entry] : tensors) {
      const std::uint64_t begin = end;
      end += entry.bytes.size();
      header[name] = {
          {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {begin, end}}};
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << text;
    for (const auto& [name, entry] : tensors) out << entry.bytes;
  }
};

/// A folder of its own, which goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string folder = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    path_ = folder;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A matrix of a checkpoint, by its module's name.
struct Module {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// Those with two dimensions that end in one of `targets`, but for routed experts.
inline std::vector<Module> modules_of(const std::filesystem::path& model,
                                      const std::vector<std::string>& targets) {
  std::vector<Module> modules;
  const auto checkpoint = store::Checkpoint::open(model);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  checkpoint->for_each([&](std::string_view name, const store::Tensor& tensor) {
    if (tensor.shape.rank != 2 || !name.ends_with(".weight")) return;
    if (name.find(".experts.") != name.npos) return;
    name.remove_suffix(7);
    for (const std::string& target : targets) {
      if (!name.ends_with("." + target)) continue;
      modules.push_back({std::string(name), tensor.shape.size[0], tensor.shape.size[1]});
    }
  });
  return modules;
}

/// An adapter of random weights in a folder, as PEFT writes it.
class TestAdapter {
 public:
  static constexpr std::size_t kRank = 4;

  TestAdapter(const std::filesystem::path& model, const std::vector<std::string>& targets,
              unsigned seed)
      : modules_(modules_of(model, targets)) {
    config = {{"peft_type", "LORA"},       {"r", kRank},        {"lora_alpha", 6},
              {"target_modules", targets}, {"bias", "none"},    {"task_type", "CAUSAL_LM"},
              {"fan_in_fan_out", false},   {"use_dora", false}, {"modules_to_save", nullptr},
              {"lora_dropout", 0.1}};
    std::mt19937 random(seed);
    for (const Module& module : modules_) {
      const std::string name = "base_model.model." + module.name;
      file.add(name + ".lora_A.weight", {kRank, module.columns},
               values(kRank * module.columns, module.columns, random));
      file.add(name + ".lora_B.weight", {module.rows, kRank},
               values(module.rows * kRank, kRank, random));
    }
    write();
  }

  /// After config or file were changed.
  void write() const {
    std::ofstream(folder_.path() / "adapter_config.json") << config.dump();
    file.write(folder_.path() / "adapter_model.safetensors");
  }

  const std::filesystem::path& folder() const { return folder_.path(); }
  const std::vector<Module>& modules() const { return modules_; }

  /// scale * B A of a module, [rows, columns].
  std::vector<double> product(const Module& module) const {
    const std::string name = "base_model.model." + module.name;
    const auto floats = [&](const std::string& end) {
      const std::string& bytes = file.tensors.at(name + end).bytes;
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return values;
    };
    const std::vector<float> a = floats(".lora_A.weight");
    const std::vector<float> b = floats(".lora_B.weight");
    const double scale = config["lora_alpha"].get<double>() / static_cast<double>(kRank);
    std::vector<double> product(module.rows * module.columns);
    for (std::uint64_t row = 0; row < module.rows; ++row) {
      for (std::uint64_t column = 0; column < module.columns; ++column) {
        for (std::size_t r = 0; r < kRank; ++r) {
          product[row * module.columns + column] +=
              scale * static_cast<double>(b[row * kRank + r]) *
              static_cast<double>(a[r * module.columns + column]);
        }
      }
    }
    return product;
  }

  nlohmann::ordered_json config;
  TensorFile file;

 private:
  static std::vector<float> values(std::size_t count, std::uint64_t columns, std::mt19937& random) {
    std::normal_distribution<float> noise(0, 1 / std::sqrt(static_cast<float>(columns)));
    std::vector<float> values(count);
    for (float& value : values) value = noise(random);
    return values;
  }

  TemporaryFolder folder_;
  std::vector<Module> modules_;
};

/// Writes a checkpoint in bfloat16 into `folder`, the adapter's products added to its matrices,
/// which are float32 then.
inline void merge(const std::filesystem::path& model, const TestAdapter& adapter,
                  const std::filesystem::path& folder) {
  const auto checkpoint = store::Checkpoint::open(model);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  TensorFile merged;
  checkpoint->for_each([&](std::string_view name, const store::Tensor& tensor) {
    std::ifstream in(checkpoint->files()[tensor.file].path, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(tensor.offset));
    std::string bytes(tensor.bytes, '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const auto sizes = tensor.shape.sizes();
    merged.tensors[std::string(name)] = {
        std::string(name_of(tensor.dtype)), {sizes.begin(), sizes.end()}, std::move(bytes)};
  });
  for (const Module& module : adapter.modules()) {
    const std::string& bytes = merged.tensors.at(module.name + ".weight").bytes;
    const std::vector<double> product = adapter.product(module);
    std::vector<float> weights(product.size());
    ASSERT_EQ(bytes.size(), weights.size() * 2) << "bfloat16 is expected";
    for (std::size_t i = 0; i < weights.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      const auto weight = std::bit_cast<float>(std::uint32_t{half} << 16);
      weights[i] = static_cast<float>(static_cast<double>(weight) + product[i]);
    }
    merged.add(module.name + ".weight", {module.rows, module.columns}, weights);
  }
  merged.write(folder / "model.safetensors");
  std::filesystem::copy_file(model / "config.json", folder / "config.json");
}

/// Of a sequence with the adapter of this number: the logits of all positions.
inline std::vector<float> logits_with(Engine& engine, std::uint32_t adapter,
                                      const std::vector<std::int32_t>& tokens) {
  std::vector<float> all;
  FeedOptions options;
  options.on_logits = [&](std::size_t, std::span<const float> logits) -> Status {
    all.insert(all.end(), logits.begin(), logits.end());
    return {};
  };
  const auto sequence = engine.new_sequence(adapter);
  EXPECT_TRUE(sequence);
  const auto fed = engine.feed(**sequence, tokens, options);
  EXPECT_TRUE(fed) << fed.error().message;
  return all;
}

inline float farthest(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

}  // namespace sluice::engine
