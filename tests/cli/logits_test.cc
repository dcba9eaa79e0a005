// sluice logits: the goldens' numbers, in NumPy's format, the same bytes however they are computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

std::vector<float> golden_floats(const Json& what) {
  const std::string file = what.at("file");
  const std::string bytes = read_file(fs::path(SLUICE_SOURCE_DIR) / "tests/golden/k3-tiny" / file);
  std::vector<float> values(bytes.size() / 4);
  bytes.copy(reinterpret_cast<char*>(values.data()), bytes.size());
  return values;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

TEST(Logits, AreTheGoldens) {
  const Folder folder;
  const Json prompt = prompt_of(golden_of("k3-tiny"), "len40");
  const Finished run =
      run_program({"logits", kTiny, "--ids", joined(prompt.at("tokens")), "--out", folder / "l.npy",
                   "--hidden", folder / "h.npy", "--routes", folder / "r.npy", "--chunk", "7"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
  const Array logits = read_npy(folder / "l.npy");
  EXPECT_EQ(logits.descr, "<f4");
  EXPECT_EQ(logits.shape, (std::vector<std::uint64_t>{40, 512}));
  EXPECT_LT(largest_difference(logits.floats, golden_floats(prompt.at("logits"))), 2e-3F);

  const Array hidden = read_npy(folder / "h.npy");
  EXPECT_EQ(hidden.shape, (std::vector<std::uint64_t>{9, 40, 96}));
  std::vector<float> last;  // of each layer: the last position
  for (std::size_t layer = 0; layer < 9; ++layer) {
    const auto begin = hidden.floats.begin() + static_cast<std::ptrdiff_t>((layer * 40 + 39) * 96);
    last.insert(last.end(), begin, begin + 96);
  }
  EXPECT_LT(largest_difference(last, golden_floats(prompt.at("hidden_last"))), 2e-3F);

  const Array routes = read_npy(folder / "r.npy");
  EXPECT_EQ(routes.descr, "<i4");
  EXPECT_EQ(routes.shape, (std::vector<std::uint64_t>{9, 40, 4}));
  EXPECT_TRUE(std::all_of(routes.ints.begin(), routes.ints.begin() + 40 * 4, [](std::int32_t id) {
    return id == -1;
  })) << "layer 0 is dense";
  for (const Json& layer : prompt.at("routes")) {
    for (std::size_t position = 0; position < 40; ++position) {
      const std::size_t at = (layer.at("layer").get<std::size_t>() * 40 + position) * 4;
      std::vector<std::int32_t> expected = layer.at("ids").at(position);
      EXPECT_TRUE(std::is_permutation(expected.begin(), expected.end(),
                                      routes.ints.begin() + static_cast<std::ptrdiff_t>(at)))
          << layer.at("layer") << " at " << position;
    }
  }
}

TEST(Logits, AreTheSameBytesForEveryWayOfComputing) {
  const Folder folder;
  const std::string ids = joined(prompt_of(golden_of("k3-tiny"), "len40").at("tokens"));
  std::vector<std::string> files;
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--threads", "2", "--chunk", "64"},
                                             {"--threads", "1", "--chunk", "1"},
                                             {"--threads", "4", "--chunk", "7", "--io", "mmap"},
                                             {"--ram", "20M", "--chunk", "3"}}) {
    const std::string number = std::to_string(files.size());
    const std::string l = folder / (number + ".l.npy");
    const std::string h = folder / (number + ".h.npy");
    const std::string r = folder / (number + ".r.npy");
    std::vector<std::string> arguments = {"logits", kTiny,      "--ids", ids,        "--out",
                                          l,        "--hidden", h,       "--routes", r};
#ifdef SLUICE_MEMORY_OF_OTHERS
    if (flags[0] == "--ram") continue;  // a sanitizer's own memory does not fit
#endif
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished run = run_program(arguments);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    files.push_back(read_file(l) + read_file(h) + read_file(r));
    EXPECT_TRUE(files.back() == files.front()) << flags[0] << " " << flags[1];
  }
}

TEST(Logits, TakeATextToo) {
  const Folder folder;
  const Json prompt = prompt_of(golden_of("k3-nano"), "text2");
  ASSERT_EQ(
      run_program({"logits", kNano, "-p", prompt.at("text"), "--out", folder / "a.npy"}).exit_code,
      0);
  ASSERT_EQ(run_program(
                {"logits", kNano, "--ids", joined(prompt.at("tokens")), "--out", folder / "b.npy"})
                .exit_code,
            0);
  EXPECT_TRUE(read_file(folder / "a.npy") == read_file(folder / "b.npy"));
}

TEST(Logits, RefusesNamesThatCannotBeFiles) {
  const Folder folder;
  const std::vector<std::string> arguments = {"logits", kTiny, "--ids", "1", "--out"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return run_program(more);
  };
  EXPECT_EQ(with({"/no/such/folder/l.npy"}).exit_code, 2);
  EXPECT_EQ(with({folder / "l.npy", "--hidden", folder / "l.npy"}).exit_code, 2);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Logits, RefusesAMissingFolderBeforeItReadsAnything) {
  const Folder folder;
  for (const char* flag : {"--out", "--hidden", "--routes"}) {
    std::vector<std::string> arguments = {"logits", "/no/such/model", "-p", "x"};
    if (flag != std::string("--out")) {
      arguments.insert(arguments.end(), {"--out", folder / "l.npy"});
    }
    arguments.insert(arguments.end(), {flag, "/no/such/folder/l.npy"});
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find("there is no folder /no/such/folder"), std::string::npos) << run.err;
  }
}

}  // namespace
}  // namespace sluice::cli
