// A flag that is taken does something: each one that `run` offers changes what it is for.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

using Words = std::vector<std::string>;

/// A flag of a run of the bundled model, and what differs from a run without it.
struct Effect {
  Words flag;         // as it is given
  const char* shows;  // where in the object of --json
  Words both = {};    // what both runs are given
};

const Effect kEffects[] = {
    {{"--max-new", "3"}, "/ids"},
    {{"--greedy"}, "/ids"},
    {{"--temperature", "0.01"}, "/ids"},
    {{"--top-k", "1"}, "/ids"},
    {{"--top-p", "0.001"}, "/ids"},
    {{"--min-p", "1"}, "/ids"},
    {{"--seed", "77"}, "/ids"},
    {{"--stop", "e"}, "/text"},
    {{"--json-schema", "schema.json"}, "/text"},
    {{"--chat"}, "/stats/prompt_tokens"},
    {{"--system", "Be brief."}, "/stats/prompt_tokens", {"--chat"}},
    {{"--effort", "low"}, "/ids", {"--chat"}},
    {{"--no-thinking"}, "/ids", {"--chat"}},
    {{"--ram", "64M"}, "/stats/ram_budget_bytes"},
    {{"--threads", "5"}, "/stats/memory/thread stacks"},
    {{"--io", "mmap"}, "/stats/memory/thread stacks", {"--threads", "1"}},
    {{"--queue-depth", "3"}, "/stats/memory/thread stacks", {"--io", "pread"}},
    {{"--chunk", "64"}, "/stats/memory/activations"},
    {{"--ctx", "3000"}, "/stats/memory/state and KV cache"},
    {{"--ring", "1M"}, "/stats/memory/trunk ring"},
    {{"--lookahead", "off"}, "/stats/bytes_guessed_used"},
    {{"--draft", "4"}, "/stats/memory/activations"},
    {{"--kv-type", "q8_0"}, "/stats/memory/state and KV cache"},
    {{"--kv-type", "bf16"}, "/stats/memory/state and KV cache"},
};

/// Flags whose effect is no number of a run; each has tests of its own.
const std::set<std::string> kElsewhere = {"--help",      "--prompt",   "--file",     "--ids",
                                          "--print-ids", "--json",     "--learn",    "--model-dir",
                                          "--lora",      "--lora-ram", "--stats",    "--stats-json",
                                          "--trace",     "--quiet",    "--use-lora", "--read-size"};

Json run_with(const Folder& folder, const Words& flags) {
  Words arguments = {"run", kNano, "-p", "It was", "--json"};
  // As many threads on every machine: on one of five cores "--threads 5" would change nothing.
  for (const auto& [flag, value] :
       {std::pair{"--max-new", "8"}, {"--seed", "3"}, {"--threads", "2"}}) {
    if (std::ranges::find(flags, flag) != flags.end()) continue;  // twice would be refused
    arguments.insert(arguments.end(), {flag, value});
  }
  for (const std::string& word : flags) {
    arguments.push_back(word == "schema.json" ? folder / word : word);
  }
  const Finished run = run_program(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.exit_code == 0 ? Json::parse(run.out) : Json::object();
}

TEST(Flags, EachOneOfARunChangesWhatItIsFor) {
  const Folder folder;
  write_file(folder / "schema.json", R"({"type":"boolean"})");
  for (const Effect& effect : kEffects) {
    const Json without = run_with(folder, effect.both);
    Words flags = effect.both;
    flags.insert(flags.end(), effect.flag.begin(), effect.flag.end());
    const Json with = run_with(folder, flags);
    const Json::json_pointer shows(effect.shows);
    ASSERT_TRUE(with.contains(shows) && without.contains(shows)) << effect.flag[0];
    EXPECT_NE(with.at(shows), without.at(shows)) << effect.flag[0] << " does nothing";
  }
}

/// Every command, and its flags that take a value, as their help lists them.
std::vector<std::pair<Words, std::string>> flags_with_values() {
  const std::regex flag("\n  (?:-[a-z],)?(--[a-z-]+)(?:,--[a-z]+)? [^ \n]");
  std::vector<std::pair<Words, std::string>> flags;
  for (const Words& command : std::vector<Words>{{"info"},
                                                 {"run"},
                                                 {"chat"},
                                                 {"logits"},
                                                 {"tokenize"},
                                                 {"synth"},
                                                 {"pack"},
                                                 {"verify"},
                                                 {"plan"},
                                                 {"bench", "drive"},
                                                 {"bench", "kernels"},
                                                 {"bench", "decode"},
                                                 {"bench", "prefill"},
                                                 {"doctor"},
                                                 {"perplexity"},
                                                 {"serve"},
                                                 {"batch"}}) {
    Words asked = command;
    asked.emplace_back("--help");
    const std::string help = run_program(asked).out;
    for (auto at = std::sregex_iterator(help.begin(), help.end(), flag);
         at != std::sregex_iterator(); ++at) {
      flags.emplace_back(command, (*at)[1]);
    }
  }
  return flags;
}

TEST(Flags, AreNeverSwitchedOffByAnEmptyValue) {
  const std::set<std::string> texts = {"--prompt", "--system",
                                       "--stop"};  // the commands judge them
  std::set<std::string> seen;
  for (const auto& [command, flag] : flags_with_values()) {
    seen.insert(flag);
    if (texts.contains(flag)) continue;
    Words arguments = command;
    arguments.insert(arguments.end(), {flag, ""});
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << command[0] << ' ' << flag;
    EXPECT_TRUE(run.err.starts_with("sluice: error: " + flag)) << run.err;
  }
  for (const char* flag : {"--api-key-file", "--state-dir", "--json-schema", "--trace", "--out",
                           "--hidden", "--name", "--allow-host", "--model-dir", "--host"}) {
    EXPECT_TRUE(seen.contains(flag)) << flag;
  }
  EXPECT_EQ(run_program({"run", kTiny, "--ids", "1", "--trace", ""}).err,
            "sluice: error: --trace: the name is empty; see sluice run --help\n");
}

TEST(Flags, NoneOfARunIsWithoutATest) {
  std::set<std::string> tested = kElsewhere;
  for (const Effect& effect : kEffects) tested.insert(effect.flag[0]);
  const std::string help = run_program({"run", "--help"}).out;
  const std::regex flag("\n  (?:-[a-z],)?(--[a-z-]+)");
  std::set<std::string> offered;
  for (auto at = std::sregex_iterator(help.begin(), help.end(), flag); at != std::sregex_iterator();
       ++at) {
    offered.insert((*at)[1]);
  }
  EXPECT_EQ(offered, tested);
}

}  // namespace
}  // namespace sluice::cli
