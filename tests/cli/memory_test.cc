// Promise: the budget is a ceiling of the whole process, and changes no word.
#include <gtest/gtest.h>

#include "base/memory_info.h"
#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

std::uint64_t checkpoint_bytes() {
  std::uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(kNano)) {
    if (entry.path().extension() == ".safetensors") sum += entry.file_size();
  }
  return sum;
}

/// What the program names when a budget is too small for a prompt.
std::uint64_t smallest_for(const std::vector<std::string>& arguments) {
  std::vector<std::string> tiny = arguments;
  tiny.insert(tiny.end(), {"--ram", "1M"});
  const Finished refused = run_program(tiny);
  EXPECT_EQ(refused.exit_code, 4);
  const std::size_t at = refused.err.find("--ram ");
  return at == std::string::npos ? 0 : std::stoull(refused.err.substr(at + 6)) << 20;
}

TEST(Ceiling, HoldsAtEveryBudgetAndTheTextIsTheSame) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "a sanitizer's own memory is no part of any budget";
#endif
  const Json prompt = prompt_of(golden_of("k3-nano"), "text10");
  const std::vector<std::string> arguments = {"run",
                                              kNano,
                                              "-p",
                                              prompt.at("text"),
                                              "--greedy",
                                              "--max-new",
                                              std::to_string(prompt.at("greedy").size())};
  const std::uint64_t whole = checkpoint_bytes();
  const std::uint64_t smallest = smallest_for(arguments);
  ASSERT_GT(smallest, 0u);
  EXPECT_LT(smallest, whole);
  for (const std::uint64_t ram : {smallest, whole * 85 / 100, whole, 4 * whole}) {
    const Folder folder;
    std::vector<std::string> with_ram = arguments;
    with_ram.insert(with_ram.end(),
                    {"--ram", std::to_string(ram), "--stats-json", folder / "stats.json"});
    const Finished run = run_program(with_ram);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, prompt.at("greedy_text")) << ram;
    const Json stats = Json::parse(read_file(folder / "stats.json"));
    EXPECT_EQ(stats.at("ram_budget_bytes"), ram);
    EXPECT_LE(stats.at("peak_rss_bytes").get<std::uint64_t>(), ram);
    EXPECT_LE(run.peak_rss_bytes, ram);
  }
}

TEST(Ceiling, IsNamedTheSameAtEveryStartAndByInfo) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "a sanitizer's own memory is no part of any budget";
#endif
  for (const std::string& model : {kNano, kTiny}) {
    for (const char* context : {"200", "300", "777", "1024"}) {
      const std::vector<std::string> run = {"run", model,   "-p",    "The river", "--max-new",
                                            "1",   "--ctx", context, "--greedy"};
      const std::uint64_t smallest = smallest_for(run);
      ASSERT_GT(smallest, 0u);
      for (int again = 0; again < 3; ++again) EXPECT_EQ(smallest_for(run), smallest);
      const auto with = [&](std::uint64_t ram) {
        std::vector<std::string> arguments = run;
        arguments.insert(arguments.end(), {"--ram", std::to_string(ram)});
        return run_program(arguments);
      };
      EXPECT_EQ(with(smallest).exit_code, 0);
      EXPECT_EQ(with(smallest - (1 << 20)).exit_code, 4);
      const Json info =
          Json::parse(run_program({"info", model, "--ctx", context, "--json"}).out).at("memory");
      for (const Json& line : info) {
        if (!line.value("smallest", false)) continue;
        const auto named = line.at("ram_bytes").get<std::uint64_t>();
        EXPECT_GE(named, smallest) << "what info names works, too";
        EXPECT_LE(named, smallest + (1 << 20));
      }
    }
  }
}

TEST(Ceiling, HoldsOverALongAnswerAndForMappedFiles) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "a sanitizer's own memory is no part of any budget";
#endif
  std::string text;
  for (const char* io : {"pread", "mmap"}) {
    const std::vector<std::string> arguments = {"run", kNano,       "-p",  "Alice was", "--io",
                                                io,    "--max-new", "600", "--greedy"};
    const std::uint64_t smallest = smallest_for(arguments);
    ASSERT_GT(smallest, 0u);
    EXPECT_LE(smallest, checkpoint_bytes()) << "the mapping costs little more than its buffers";
    std::vector<std::string> with_ram = arguments;
    with_ram.insert(with_ram.end(), {"--ram", std::to_string(smallest)});
    const Finished run = run_program(with_ram);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_LE(run.peak_rss_bytes, smallest) << io;
    if (text.empty()) text = run.out;
    EXPECT_EQ(run.out, text);
    EXPECT_GT(text.size(), 600u);
  }
}

TEST(Ceiling, HoldsOverALongPromptWhateverItsChunk) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "a sanitizer's own memory is no part of any budget";
#endif
  std::string ids;
  for (int i = 0; i < 3000; ++i) ids += (i > 0 ? "," : "") + std::to_string((i * 37 + 5) % 250);
  std::uint64_t before = 0;
  std::string text;
  // A chunk of all positions has most activations: what was not counted of them would show.
  for (const char* chunk : {"64", "512", "3000"}) {
    SCOPED_TRACE(std::string("--chunk ") + chunk);
    std::vector<std::string> arguments = {"run", kTiny,         "--ids",    ids,       "--max-new",
                                          "2",   "--print-ids", "--greedy", "--chunk", chunk};
    const std::uint64_t smallest = smallest_for(arguments);
    ASSERT_GT(smallest, before);
    before = smallest;
    arguments.insert(arguments.end(), {"--ram", std::to_string(smallest)});
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_LE(run.peak_rss_bytes, smallest);
    if (text.empty()) text = run.out;
    EXPECT_EQ(run.out, text);
  }
  EXPECT_FALSE(text.empty());
}

TEST(Ceiling, IsThereByDefaultAndDoesNotFillTheMachine) {
  const Folder folder;
  const Finished run = run_program({"run", kNano, "--ids", "1", "--max-new", "1", "--print-ids",
                                    "--stats-json", folder / "stats.json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::uint64_t budget =
      Json::parse(read_file(folder / "stats.json")).at("ram_budget_bytes").get<std::uint64_t>();
  // How much of what is free, Budget tests: that moves while others work.
  EXPECT_GE(budget, checkpoint_bytes() / 2);
  EXPECT_LT(budget, total_memory() / 8 * 7) << "a budget that fills the machine ends in its swap";
}

TEST(Ceiling, CountsTheContextBeforeAnythingIsRead) {
  const auto smallest_with = [](const std::string& context) {
    return smallest_for({"run", kNano, "--ids", "1", "--print-ids", "--ctx", context});
  };
  EXPECT_GT(smallest_with("4096"), smallest_with("64"));
}

}  // namespace
}  // namespace sluice::cli
