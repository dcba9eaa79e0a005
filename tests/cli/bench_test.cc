// sluice bench and sluice doctor: they run, their JSON parses, and nothing is left behind.
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

Json json_of(const std::vector<std::string>& arguments) {
  const Finished finished = run_program(arguments);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  Json json = Json::parse(finished.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << finished.out;
  return json;
}

TEST(BenchCommand, DriveMeasuresEveryReaderAndLeavesNothing) {
  const Folder folder;
  const Json json = json_of(
      {"bench", "drive", folder.path().string(), "--size", "16M", "--rounds", "1", "--json"});
  const Json drive = json.at("drives").at(0);
  EXPECT_EQ(drive.at("temporary_file"), true);
  ASSERT_EQ(drive.at("readers").size(), json.contains("io_uring_refusal") ? 2u : 3u);
  double most = 0;
  for (const Json& reader : drive.at("readers")) {
    EXPECT_GT(reader.at("bytes_per_s"), 0.0);
    most = std::max(most, reader.at("of_best").get<double>());
  }
  EXPECT_EQ(most, 1.0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(BenchCommand, KernelsStandBesideTheReadLoop) {
  const Json json = json_of({"bench", "kernels", "--threads", "1", "--seconds", "1", "--json"});
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_GT(json.at("read_bytes_per_s").at("one"), 0.0);
  EXPECT_EQ(json.at("kernels").size(), 4u);
  for (const Json& kernel : json.at("kernels")) EXPECT_GT(kernel.at("of_read"), 0.0);
}

TEST(BenchCommand, DecodeAndPrefillRunAModel) {
  const Json decode = json_of({"bench", "decode", kTiny, "--tokens", "3", "--json"});
  EXPECT_EQ(decode.at("tokens"), 3);
  EXPECT_EQ(decode.at("token_s").size(), 3u);
  EXPECT_GT(decode.at("seconds_per_token"), 0.0);
  const Json prefill =
      json_of({"bench", "prefill", kTiny, "--tokens", "5", "--chunk", "2", "--json"});
  EXPECT_EQ(prefill.at("tokens"), 5);
  EXPECT_EQ(prefill.at("chunk"), 2);
  EXPECT_GT(prefill.at("bytes_read"), 0u);
}

TEST(BenchCommand, WritesTheStatisticsOfTheRun) {
  const Folder folder;
  for (const char* kind : {"decode", "prefill"}) {
    const Finished run = run_program({"bench", kind, kTiny, "--tokens", "3", "--json", "--stats",
                                      "--stats-json", folder / "stats.json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_NE(run.err.find("hit rate"), std::string::npos) << run.err;
    EXPECT_GE(Json::parse(run.out).at("drive_busy_s"), 0.0);
    const Json stats = Json::parse(read_file(folder / "stats.json"));
    EXPECT_GT(stats.at("bytes_read"), 0u);
    EXPECT_EQ(stats.at(kind == std::string("decode") ? "generated_tokens" : "prompt_tokens"), 3);
  }
}

TEST(BenchCommand, RefusesWhatItDoesNotKnow) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"bench"},
                                             {"bench", "coffee"},
                                             {"bench", "drive"},
                                             {"bench", "drive", "/no/such/path"},
                                             {"bench", "drive", ".", "--rounds", "0"},
                                             {"bench", "kernels", "--threads", "0"},
                                             {"bench", "decode"},
                                             {"bench", "decode", kTiny, "--tokens", "0"}}) {
    const Finished finished = run_program(arguments);
    EXPECT_EQ(finished.exit_code, 2) << arguments.back() << finished.err;
    EXPECT_EQ(finished.out, "");
  }
  EXPECT_EQ(run_program({"bench", "decode", "/no/such/model"}).exit_code, 3);
}

TEST(DoctorCommand, DescribesMachineAndDrives) {
  const Folder folder;
  const Json json = json_of({"doctor", folder.path().string(), kTiny, "--no-speed", "--json"});
  const Json machine = json.at("machine");
  EXPECT_GE(machine.at("usable_cores"), 1);
  EXPECT_GT(machine.at("memory_bytes"), 0u);
  EXPECT_NE(machine.at("kernels"), "");
  EXPECT_FALSE(machine.at("instruction_sets").empty());
  // Whether it works or not, one says why it does not and the other does not.
  EXPECT_EQ(machine.at("io_uring").get<bool>(),
            machine.at("io_uring_refusal").get<std::string>().empty());
  ASSERT_EQ(json.at("drives").size(), 2u);
  EXPECT_NE(json.at("drives").at(0).at("file_system"), "");
  EXPECT_TRUE(json.at("drives").at(0).contains("direct_io"));
  EXPECT_TRUE(json.at("advice").is_array());
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DoctorCommand, MeasuresUnlessToldNotTo) {
  const Folder folder;
  const Json json = json_of({"doctor", folder.path().string(), "--json"});
  EXPECT_GT(json.at("drives").at(0).at("bytes_per_s"), 0.0);
}

TEST(DoctorCommand, TheTextEndsWithWhatToChange) {
  const Finished text = run_program({"doctor", "--no-speed"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"io_uring", "huge pages", "locked memory", "drive", "change"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const Finished missing = run_program({"doctor", "/no/such/path"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("/no/such/path"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
