// sluice run: the answer is right, and stdout carries nothing else.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

/// The prompt "It was on a dreary night" with its golden continuation.
Json night() { return prompt_of(golden_of("k3-nano"), "text2"); }
std::string count_of(const Json& ids) { return std::to_string(ids.size()); }

TEST(Run, ContinuesTheGoldenPrompts) {
  const Json golden = golden_of("k3-nano");
  for (const char* name : {"text0", "text4", "text10"}) {
    const Json prompt = prompt_of(golden, name);
    const Finished run = run_program({"run", kNano, "-p", prompt.at("text"), "--greedy",
                                      "--max-new", count_of(prompt.at("greedy"))});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, prompt.at("greedy_text")) << name;
    EXPECT_EQ(run.err, "") << name;
  }
}

TEST(Run, PrintsIdsOnOneLine) {
  const Json prompt = night();
  const Finished run = run_program({"run", kNano, "--ids", joined(prompt.at("tokens")), "--greedy",
                                    "--max-new", count_of(prompt.at("greedy")), "--print-ids"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, joined(prompt.at("greedy")) + "\n");
}

TEST(Run, NeedsNoTokenizerForIds) {
  const ModelCopy copy(kTiny);
  fs::remove(copy / "tiktoken.model");
  fs::remove(copy / "tokenizer_config.json");
  const Json prompt = prompt_of(golden_of("k3-tiny"), "len7");
  const std::vector<std::string> arguments = {"run",
                                              copy.path(),
                                              "--ids",
                                              joined(prompt.at("tokens")),
                                              "--greedy",
                                              "--max-new",
                                              count_of(prompt.at("greedy"))};
  std::vector<std::string> with_ids = arguments;
  with_ids.emplace_back("--print-ids");
  const Finished run = run_program(with_ids);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, joined(prompt.at("greedy")) + "\n");
  const Finished plain = run_program(arguments);
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(plain.out, run.out) << "ids are all that there is";
  EXPECT_NE(plain.err.find("no tokenizer"), std::string::npos) << plain.err;
  std::vector<std::string> with_json = arguments;
  with_json.emplace_back("--json");
  const Json object = Json::parse(run_program(with_json).out);
  EXPECT_EQ(object["ids"], prompt.at("greedy"));
  EXPECT_FALSE(object.contains("text"));
  std::vector<std::string> with_stop = arguments;
  with_stop.insert(with_stop.end(), {"--stop", "x"});
  EXPECT_EQ(run_program(with_stop).exit_code, 3) << "text needs it";
  write_file(copy / "tiktoken.model", "damaged");
  EXPECT_EQ(run_program(arguments).exit_code, 3) << "a damaged one is not none";
}

TEST(Run, RefusesASchemaFileThatIsWrong) {
  const Folder folder;
  const auto run_with = [&](const std::string& name, std::string_view text) {
    if (!text.empty()) write_file(folder / name, text);
    return run_program({"run", kNano, "-p", "x", "--json-schema", folder / name});
  };
  const Finished twice = run_with("twice.json", R"({"type": "object", "properties": {"sail": {},
                                                   "sail": {"type": "string"}}})");
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_NE(twice.err.find("the name \"sail\" twice"), std::string::npos) << twice.err;
  const Finished large = run_with("large.json", std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(large.exit_code, 2) << large.err;
  EXPECT_NE(large.err.find("--json-schema: "), std::string::npos) << large.err;
  EXPECT_EQ(run_with("missing.json", "").exit_code, 2);
  EXPECT_EQ(run_with("broken.json", "{").exit_code, 2);
}

TEST(Run, HoldsAnAnswerToASchemaOfManyEqualAlternatives) {
  const Folder folder;
  Json schema = {{"$ref", "#/$defs/0"}};
  for (int i = 0; i < 60; ++i) {
    const Json next = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    schema["$defs"][std::to_string(i)]["anyOf"] = {next, {{"allOf", {next}}}};
  }
  schema["$defs"]["60"]["const"] = "aye";
  write_file(folder / "schema.json", schema.dump());
  const Finished run =
      run_program({"run", kNano, "-p", "x", "--json-schema", folder / "schema.json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "\"aye\"");
}

TEST(Run, SaysThatTheJsonOfASchemaIsCutOff) {
  const Folder folder;
  write_file(folder / "schema.json", R"({"type":"array","items":{"const":"aye"},"minItems":9})");
  const std::vector<std::string> arguments = {
      "run", kNano, "-p", "x", "--json-schema", folder / "schema.json", "--max-new"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return run_program(more);
  };
  const std::string note = "the JSON of --json-schema is cut off and no whole value";
  const Finished cut = with({"3", "--quiet"});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_NE(cut.err.find(note), std::string::npos) << cut.err;
  EXPECT_NE(cut.err.find("--max-new 3"), std::string::npos) << cut.err;
  const Finished told = with({"3", "--json"});
  EXPECT_EQ(Json::parse(told.out).at("finish_reason"), "length");
  const Finished whole = with({"200"});
  EXPECT_GE(Json::parse(whole.out).size(), 9u);
  EXPECT_EQ(whole.err.find(note), std::string::npos) << whole.err;
}

TEST(Run, TakesItsPromptFromAFileAndFromStdin) {
  const Folder folder;
  const Json prompt = night();
  const std::string text = prompt.at("text");
  write_file(folder / "prompt.txt", text);
  const std::string expected = prompt.at("greedy_text").get<std::string>().substr(0, 12);
  const auto run = [&](const std::string& file, const std::string& input) {
    return run_program({"run", kNano, "-f", file, "--greedy", "--max-new", "8"}, input).out;
  };
  EXPECT_EQ(run(folder / "prompt.txt", "").substr(0, 12), expected);
  EXPECT_EQ(run("-", text).substr(0, 12), expected);
}

TEST(Run, SaysEverythingInOneJsonObject) {
  const Json prompt = night();
  const Finished run = run_program({"run", kNano, "-p", prompt.at("text"), "--greedy", "--max-new",
                                    count_of(prompt.at("greedy")), "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json answer = Json::parse(run.out);
  EXPECT_EQ(answer.at("text"), prompt.at("greedy_text"));
  EXPECT_EQ(answer.at("ids"), prompt.at("greedy"));
  EXPECT_EQ(answer.at("finish_reason"), "length");
  EXPECT_EQ(answer.at("stats").at("prompt_tokens"), prompt.at("tokens").size());
  EXPECT_EQ(answer.at("stats").at("generated_tokens"), prompt.at("greedy").size());
}

TEST(Run, EndsBeforeAStopTextThatSpansTokens) {
  const Json prompt = night();
  const std::string text = prompt.at("greedy_text");
  const std::string stop = "membered the Sw";  // begins and ends inside tokens
  ASSERT_NE(text.find(stop), std::string::npos);
  const Finished run = run_program({"run", kNano, "-p", prompt.at("text"), "--greedy", "--stop",
                                    "never written", "--stop", stop, "--json"});
  const Json answer = Json::parse(run.out);
  EXPECT_EQ(answer.at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(answer.at("finish_reason"), "stopped");
}

TEST(Run, SamplesByTheSeed) {
  const auto ids = [](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"run",       kNano, "-p",         "Alice",
                                          "--max-new", "16",  "--print-ids"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  const std::string greedy = ids({"--greedy"});
  EXPECT_EQ(ids({"--temperature", "0"}), greedy);
  EXPECT_EQ(ids({"--top-k", "1"}), greedy);
  EXPECT_EQ(ids({"--top-p", "0.000001"}), greedy);
  EXPECT_EQ(ids({"--top-p", "0"}), greedy);
  EXPECT_EQ(ids({"--min-p", "1"}), greedy);
  const std::string one = ids({"--seed", "1", "--temperature", "1.5"});
  EXPECT_EQ(ids({"--seed", "1", "--temperature", "1.5"}), one);
  EXPECT_NE(ids({"--seed", "2", "--temperature", "1.5"}), one);
}

TEST(Run, WritesTheSameWhateverTheWayOfComputing) {
  const Json prompt = night();
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--threads", "1"},
                                             {"--threads", "3", "--chunk", "3"},
                                             {"--io", "mmap"},
                                             {"--draft", "3"},
                                             {"--draft", "off"}}) {
    std::vector<std::string> arguments = {"run",
                                          kNano,
                                          "-p",
                                          prompt.at("text"),
                                          "--greedy",
                                          "--max-new",
                                          count_of(prompt.at("greedy"))};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    EXPECT_EQ(run_program(arguments).out, prompt.at("greedy_text")) << flags[0];
  }
}

TEST(Run, TellsHowManyDraftsCameTrue) {
  // k3-nano goes on with this in circles.
  const Finished run = run_program({"run", kNano, "-p", "def __init__(self", "--greedy",
                                    "--max-new", "40", "--draft", "4", "--json", "--stats"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("\n  drafts "), std::string::npos) << run.err;
  const Json stats = Json::parse(run.out).at("stats");
  EXPECT_GT(stats.at("drafted_tokens"), 0);
  EXPECT_GE(stats.at("drafted_tokens"), stats.at("accepted_drafts"));
  EXPECT_GT(stats.at("s_per_token"), 0);
  EXPECT_FALSE(stats.contains("predicted_s_per_token")) << "the plan knows no drafts";
  for (const char* wrong : {"0", "33", "-1", "on", ""}) {
    const Finished refused = run_program({"run", kNano, "-p", "Alice", "--draft", wrong});
    EXPECT_EQ(refused.exit_code, 2) << wrong;
    EXPECT_NE(refused.err.find("--draft"), std::string::npos) << refused.err;
  }
}

TEST(Run, MayWriteNothingNew) {
  const Finished run = run_program({"run", kNano, "-p", "Alice", "--max-new", "0"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
}

TEST(Run, EndsWhenTheContextIsFullAndSaysSo) {
  const Finished run = run_program(
      {"run", kNano, "--ids", "1,2,3", "--ctx", "5", "--max-new", "9", "--greedy", "--json"});
  EXPECT_EQ(run.exit_code, 0);
  const Json answer = Json::parse(run.out);
  EXPECT_EQ(answer.at("finish_reason"), "context");
  EXPECT_EQ(answer.at("ids").size(), 3u);  // the last one was never fed
  EXPECT_NE(run.err.find("--ctx"), std::string::npos) << run.err;
}

TEST(Run, ReportsStatisticsUnderTheirContractedNames) {
  const Folder folder;
  const Finished run = run_program({"run", kNano, "-p", "Alice", "--max-new", "4", "--ram", "64M",
                                    "--stats", "--stats-json", folder / "stats.json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("hit rate"), std::string::npos) << run.err;
  EXPECT_EQ(run.out.find("hit rate"), std::string::npos);
  const Json stats = Json::parse(read_file(folder / "stats.json"));
  for (const char* key : {"prompt_tokens",
                          "generated_tokens",
                          "ttft_s",
                          "prefill_tokens_per_s",
                          "decode_tokens_per_s",
                          "wall_s",
                          "compute_s",
                          "io_wait_s",
                          "bytes_read",
                          "bytes_read_trunk",
                          "bytes_read_experts",
                          "expert_hits",
                          "expert_misses",
                          "expert_hit_rate",
                          "peak_rss_bytes",
                          "ram_budget_bytes",
                          "resident_bytes",
                          "drives",
                          "s_per_token",
                          "predicted_s_per_token",
                          "predicted_ttft_s"}) {
    EXPECT_TRUE(stats.contains(key)) << key;
  }
  EXPECT_NE(run.err.find("predicted"), std::string::npos) << run.err;
  EXPECT_GT(stats.at("predicted_s_per_token"), 0);
  EXPECT_EQ(stats.at("generated_tokens"), 4);
  EXPECT_EQ(stats.at("ram_budget_bytes"), 64 << 20);
  EXPECT_GT(stats.at("peak_rss_bytes"), 1 << 20);
  ASSERT_EQ(stats.at("drives").size(), 1u);
  for (const char* key : {"path", "bytes", "busy_s", "gb_per_s", "direct"}) {
    EXPECT_TRUE(stats.at("drives").at(0).contains(key)) << key;
  }
}

TEST(Run, ShowsProgressOnATerminalAndTakesItAway) {
  const std::vector<std::string> arguments = {"run",       kNano, "-p", "Alice was tired",
                                              "--max-new", "4"};
  Program seen(arguments, Program::Errors::terminal);
  const Finished run = seen.finish();
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("layer 1/9"), std::string::npos) << run.err;
  EXPECT_TRUE(run.err.ends_with("\r\033[K")) << run.err;
  EXPECT_EQ(run.out.find("layer"), std::string::npos);

  std::vector<std::string> silent = arguments;
  silent.emplace_back("--quiet");
  EXPECT_EQ(Program(silent, Program::Errors::terminal).finish().err, "");
}

TEST(Run, StreamsAndStopsOnCtrlC) {
  Program program({"run", kNano, "-p", "Alice", "--max-new", "4000", "--greedy"});
  ASSERT_TRUE(program.wait_for_out("very getting"));  // while it is still writing
  program.interrupt();
  const Finished run = program.finish();
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_TRUE(run.out.starts_with(" did not feel very getting")) << run.out;
  EXPECT_NE(run.err.find("interrupted"), std::string::npos) << run.err;
}

TEST(Run, LeavesAWholeTraceOnCtrlCAndWhenItIsKilled) {
  for (const bool is_killed : {false, true}) {
    const Folder folder;
    {
      Program program({"run", kNano, "-p", "Alice", "--max-new", "4000", "--greedy", "--trace",
                       folder / "trace.json"});
      ASSERT_TRUE(program.wait_for_out("very getting"));
      if (!is_killed) {
        program.interrupt();
        EXPECT_EQ(program.finish().exit_code, 130);
      }
    }  // kills it
    const Json trace = Json::parse(read_file(folder / "trace.json"));
    EXPECT_GT(trace.size(), 100u);
  }
}

TEST(Run, RemembersExpertsInTheCacheFolderUnlessToldNotTo) {
  const Folder folder;
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::string saved = before != nullptr ? before : "";
  const auto files = [&] {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  };
  const std::vector<std::string> arguments = {"run",       kTiny, "--ids",      "1,2,3",
                                              "--max-new", "3",   "--print-ids"};
  run_program(arguments);  // sets the variable up
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  std::vector<std::string> off = arguments;
  off.insert(off.end(), {"--learn", "off"});
  const Finished without = run_program(off);
  EXPECT_TRUE(files().empty());
  const Finished first = run_program(arguments);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(files()[0].parent_path(), folder.path() / "sluice");
  const Finished second = run_program(arguments);
  EXPECT_EQ(without.out, first.out);
  EXPECT_EQ(without.out, second.out);
  EXPECT_EQ(second.err, "");
  write_file(files()[0], "damaged");
  const Finished third = run_program(arguments);
  EXPECT_EQ(third.exit_code, 0);
  EXPECT_EQ(third.out, first.out);
  EXPECT_NE(third.err.find("started afresh"), std::string::npos) << third.err;
  setenv("XDG_CACHE_HOME", saved.c_str(), 1);
}

TEST(Run, EndsQuietlyWhenNobodyReads) {
  Program program({"run", kNano, "-p", "Alice", "--max-new", "4000", "--greedy"});
  ASSERT_TRUE(program.wait_for_out("very"));
  program.close_output();
  const Finished run = program.finish();
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
}

TEST(Run, SpeaksTheChatFormat) {
  // The model has never seen a conversation: what counts is where its words go.
  const std::vector<std::string> arguments = {"run",          kNano,      "--chat",    "-p",
                                              "Who are you?", "--system", "Be brief.", "--max-new",
                                              "12",           "--greedy"};
  const Finished thinking = run_program(arguments);
  EXPECT_EQ(thinking.exit_code, 4) << "a script must see that there is no answer";
  EXPECT_EQ(thinking.out, "");
  const std::string reason = "no answer yet: the thinking before it was cut by --max-new 12";
  EXPECT_NE(thinking.err.find(reason), std::string::npos) << thinking.err;
  EXPECT_FALSE(thinking.err.starts_with("sluice: ")) << "what it thinks comes first";

  std::vector<std::string> quiet = arguments;
  quiet.emplace_back("-q");
  const Finished silent = run_program(quiet);
  EXPECT_EQ(silent.exit_code, 4);
  EXPECT_EQ(silent.out, "");
  EXPECT_TRUE(silent.err.starts_with("sluice: error: there is " + reason)) << silent.err;
  EXPECT_EQ(lines_of(silent.err), 1u) << silent.err;

  std::vector<std::string> hushed = arguments;
  hushed.emplace_back("--no-thinking");
  const Finished answering = run_program(hushed);
  EXPECT_EQ(answering.exit_code, 0) << answering.err;
  EXPECT_NE(answering.out, "");
  EXPECT_EQ(answering.err, "");

  std::vector<std::string> structured = arguments;
  structured.insert(structured.end(), {"--json", "--effort", "low"});
  const Finished object = run_program(structured);
  EXPECT_EQ(object.exit_code, 0) << "it says itself how it ended";
  const Json answer = Json::parse(object.out);
  EXPECT_EQ(answer.at("text"), "");
  EXPECT_NE(answer.at("reasoning"), "");
}

}  // namespace
}  // namespace sluice::cli
