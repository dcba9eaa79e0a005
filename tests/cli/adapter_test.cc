// --lora: which adapter a command computes with, and what is said where that is not clear.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"
#include "engine/adapter_support.h"

namespace sluice::cli {
namespace {

const std::string kGolden = SLUICE_SOURCE_DIR "/tests/golden/";
const std::string kLlama = kGolden + "llama-tiny/checkpoint";
const std::string kPlain = "plain=" + kGolden + "lora/llama-plain";
const std::string kPatterns = "patterns=" + kGolden + "lora/llama-patterns";

/// Greedy ids after some others.
std::string continued(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"run", kLlama, "--ids", "5,9,33,7", "--greedy", "--max-new", "8",
                               "--print-ids", "-q", "--learn", "off"});
  const Finished run = run_program(flags);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

TEST(Lora, OneIsUsedAndAmongSeveralOneIsChosen) {
  const std::string base = continued({});
  const std::string plain = continued({"--lora", kPlain});
  const std::string patterns = continued({"--lora", kPatterns});
  EXPECT_NE(plain, base);
  EXPECT_NE(plain, patterns);
  const std::vector<std::string> both = {"--lora", kPlain, "--lora", kPatterns, "--use-lora"};
  const auto chosen = [&](const std::string& name) {
    std::vector<std::string> flags = both;
    flags.push_back(name);
    return continued(flags);
  };
  EXPECT_EQ(chosen("plain"), plain);
  EXPECT_EQ(chosen("patterns"), patterns);
  EXPECT_EQ(chosen("none"), base);
}

TEST(Lora, LogitsAreThoseOfTheMergedCheckpoint) {
  const Json golden = Json::parse(read_file(kGolden + "lora/llama-plain/golden.json"));
  const Folder folder;
  const Finished run = run_program({"logits", kLlama, "--ids", joined(golden.at("tokens")), "--out",
                                    folder / "l.npy", "--lora", kPlain, "--stats-json",
                                    folder / "s.json", "--learn", "off", "-q"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string found = read_file(folder / "l.npy");
  const std::string expected = read_file(kGolden + "lora/llama-plain/logits.bin");
  ASSERT_EQ(found.size(), expected.size() + 128);
  for (std::size_t at = 0; at < expected.size(); at += sizeof(float)) {
    float a = 0;
    float b = 0;
    std::memcpy(&a, found.data() + 128 + at, sizeof(a));
    std::memcpy(&b, expected.data() + at, sizeof(b));
    ASSERT_NEAR(a, b, 1e-3);
  }
  const Json statistics = Json::parse(read_file(folder / "s.json"));
  EXPECT_EQ(statistics.at("adapter_loads"), 1);
  EXPECT_GT(statistics.at("memory").at("adapters"), 0);
}

TEST(Lora, WhatIsNotClearIsRefused) {
  const auto refused = [](std::vector<std::string> flags, int code, const std::string& text) {
    flags.insert(flags.begin(), {"run", kLlama, "--ids", "1", "--print-ids", "--max-new", "1"});
    const Finished run = run_program(flags);
    EXPECT_EQ(run.exit_code, code) << text;
    EXPECT_NE(run.err.find(text), std::string::npos) << run.err;
  };
  refused({"--lora", kPlain, "--lora", kPatterns}, 2, "--use-lora NAME must say which");
  refused({"--lora", kPlain, "--use-lora", "x"}, 2, "--use-lora x: no --lora has this name");
  refused({"--use-lora", "x"}, 2, "--use-lora requires --lora");
  refused({"--lora-ram", "1M"}, 2, "--lora-ram requires --lora");
  refused({"--lora", "none=/tmp"}, 2, "the name none is reserved");
  refused({"--lora", "x"}, 2, "expected NAME=DIR, found \"x\"");
  refused({"--lora", "=x"}, 2, "expected NAME=DIR");
  refused({"--lora", "x=/nowhere"}, 3, "the adapter /nowhere cannot be opened");
  refused({"--lora", kPlain, "--lora", kPlain, "--use-lora", "plain"}, 2,
          "--lora: the name plain is there twice");
  refused({"--lora", kPlain, "--lora-ram", "1K"}, 2, "--lora-ram: the largest adapter takes");
}

TEST(Lora, NoFileOfAnAdapterIsWrittenOver) {
  const engine::TestAdapter adapter(kLlama, {"q_proj"}, 4);
  const std::string config = (adapter.folder() / "adapter_config.json").string();
  const std::string before = read_file(config);
  const Finished run =
      run_program({"run", kLlama, "--ids", "1", "--print-ids", "--max-new", "1", "--lora",
                   "x=" + adapter.folder().string(), "--stats-json", config});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(read_file(config), before);
}

TEST(Lora, PerplexityIsOfTheAdapter) {
  const auto measured = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"perplexity", kLlama, "--json", "--ids", "5,9,33,7,70,4", "-q",
                                 "--learn", "off"});
    const Finished run = run_program(flags);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return Json::parse(run.out).at("perplexity");
  };
  EXPECT_NE(measured({"--lora", kPlain}), measured({}));
  EXPECT_EQ(measured({"--lora", kPlain, "--use-lora", "none"}), measured({}));
}

/// Requests for the model and each of its adapters, in turn.
std::string requests_of(const std::vector<std::string>& models) {
  std::string lines;
  for (const std::string& model : models) {
    const Json line = {{"custom_id", model},
                       {"method", "POST"},
                       {"url", "/v1/completions"},
                       {"body",
                        {{"model", model},
                         {"prompt", "It was on a dreary night"},
                         {"temperature", 0},
                         {"max_tokens", 12}}}};
    lines += line.dump() + "\n";
  }
  return lines;
}

/// An adapter of zeros, which a sparse file holds: its size is all that matters. Returns that.
std::uint64_t write_large_adapter(const fs::path& folder, std::size_t rank) {
  Json header;
  std::uint64_t end = 0;
  const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    const std::uint64_t begin = end;
    end += rows * columns * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", {rows, columns}}, {"data_offsets", {begin, end}}};
  };
  const std::vector<std::string> targets = {"q_proj", "k_proj", "v_proj", "o_proj"};
  for (const engine::Module& module : engine::modules_of(kNano, targets)) {
    add("base_model.model." + module.name + ".lora_A.weight", rank, module.columns);
    add("base_model.model." + module.name + ".lora_B.weight", module.rows, rank);
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  const fs::path weights = folder / "adapter_model.safetensors";
  fs::create_directory(folder);
  write_file(weights, std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text);
  fs::resize_file(weights, sizeof(length) + length + end);
  const Json config = {
      {"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", 1}, {"target_modules", targets}};
  write_file(folder / "adapter_config.json", config.dump());
  return end;
}

TEST(Lora, ManyLargeOnesStayWithinTheSmallestBudgetThatIsNamed) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "a sanitizer's own memory is no part of any budget";
#endif
  const Folder folder;
  std::vector<std::string> arguments = {"batch", folder / "in.jsonl", "--model", kNano, "-q"};
  std::vector<std::string> names = {"k3-nano"};
  std::uint64_t each = 0;
  for (int i = 0; i < 5; ++i) {
    names.push_back("adapter-" + std::to_string(i));
    each = write_large_adapter(folder / names.back(), 400);
    arguments.insert(arguments.end(), {"--lora", names.back() + "=" + (folder / names.back())});
  }
  ASSERT_GT(each, 16u << 20);
  write_file(folder / "in.jsonl", requests_of(names));
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  const std::uint64_t room = 2 * each + (8 << 20);  // buffers are rounded up
  const std::string pool = std::to_string(room);
  const Finished refused =
      run({"--lora-ram", pool, "--ram", "1M", "--out", folder / "refused.jsonl"});
  ASSERT_EQ(refused.exit_code, 4) << refused.err;
  const std::size_t at = refused.err.find("--ram ");
  ASSERT_NE(at, std::string::npos);
  const std::uint64_t ram = std::stoull(refused.err.substr(at + 6)) << 20;
  EXPECT_GT(ram, room);
  const Finished done = run({"--lora-ram", pool, "--ram", std::to_string(ram), "--stats-json",
                             folder / "s.json", "--out", folder / "out.jsonl"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_LE(done.peak_rss_bytes, ram);
  const Json statistics = Json::parse(read_file(folder / "s.json"));
  EXPECT_EQ(statistics.at("adapter_loads"), 5);
  EXPECT_EQ(statistics.at("adapter_evictions"), 3);
  EXPECT_LE(statistics.at("memory").at("adapters").get<std::uint64_t>(), room);
}

TEST(Lora, ABatchHasTheModelOfEachLine) {
  const engine::TestAdapter adapter(kNano, {"q_proj", "o_proj"}, 4);
  const Folder folder;
  write_file(folder / "in.jsonl", requests_of({"k3-nano", "mine", "other"}));
  const Finished run =
      run_program({"batch", folder / "in.jsonl", "--model", kNano, "--out", folder / "out.jsonl",
                   "--lora", "mine=" + adapter.folder().string(), "-q"});
  ASSERT_EQ(run.exit_code, 2) << run.err;  // one is of no model that there is
  std::map<std::string, Json> results;
  std::string text = read_file(folder / "out.jsonl");
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
    const Json line = Json::parse(text.substr(0, end));
    results[line["custom_id"]] = line["response"];
  }
  EXPECT_EQ(results["mine"]["body"]["model"], "mine");
  EXPECT_EQ(results["other"]["status_code"], 404);
  EXPECT_NE(results["mine"]["body"]["choices"], results["k3-nano"]["body"]["choices"]);
}

}  // namespace
}  // namespace sluice::cli
