// Promise: the budget is a ceiling of the whole process, and changes no word.
#include <gtest/gtest.h>

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
#ifdef SLUICE_SANITIZED
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

}  // namespace
}  // namespace sluice::cli
