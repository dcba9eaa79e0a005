// --trace: every read and every computation, as JSON that can be read whenever the run ends.
#include "base/trace.h"

#include <map>
#include <set>

#include "engine/golden.h"
#include "io/fault_reader.h"

namespace sluice::engine {
namespace {

/// A file of its own for the time of a test.
class TraceFile {
 public:
  TraceFile() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    const int descriptor = mkstemp(name.data());
    EXPECT_GE(descriptor, 0);
    close(descriptor);
    path_ = name;
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  const std::filesystem::path& path() const { return path_; }
  nlohmann::json parse() const {
    std::ifstream in(path_);
    return nlohmann::json::parse(in);
  }

 private:
  std::filesystem::path path_;
};

EngineOptions traced_into(const TraceFile& file) {
  EngineOptions options;
  options.all_logits = true;
  options.chunk = 4;
  options.trace = file.path();
  return options;
}

TEST(Trace, HasEveryReadAndTheBytesAreThoseOfTheStatistics) {
  const TraceFile file;
  const auto engine = open_engine("k3-tiny", traced_into(file));
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_TRUE(trace(**engine, kPrompt));
  const Statistics statistics = (*engine)->statistics();
  std::map<std::string, std::uint64_t> bytes;
  std::uint64_t reads = 0;
  std::uint64_t ends = 0;
  for (const auto& event : file.parse()) {  // the engine still has it open
    if (event["ph"] == "e") ++ends;
    if (event["ph"] != "b") continue;
    ++reads;
    bytes[event["cat"]] += event["args"]["bytes"].get<std::uint64_t>();
    EXPECT_GE(event["args"]["wait_ms"].get<double>(), 0);
    EXPECT_EQ(event["args"]["drive"], 0);
    EXPECT_FALSE(event["name"].get<std::string>().empty());
  }
  EXPECT_GT(reads, 0u);
  EXPECT_EQ(reads, ends);
  EXPECT_EQ(bytes["trunk"], statistics.bytes_of(io::Purpose::trunk));
  EXPECT_EQ(bytes["expert"], statistics.bytes_of(io::Purpose::expert));
  EXPECT_EQ(bytes["other"], statistics.bytes_of(io::Purpose::other));
}

TEST(Trace, HasEveryLayerWithItsKind) {
  const TraceFile file;
  const auto engine = open_engine("k3-tiny", traced_into(file));
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_TRUE(trace(**engine, kPrompt));
  std::set<std::pair<std::size_t, std::string>> found;
  std::set<std::string> kinds;
  for (const auto& event : file.parse()) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"].get<double>(), 0);
    kinds.insert(event["args"]["kind"]);
    if (event["args"].contains("layer")) {
      found.emplace(event["args"]["layer"].get<std::size_t>(), event["name"]);
    }
  }
  const model::Shape& shape = (*engine)->shape();
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    const std::string& kind = shape.layer_kinds[layer];
    EXPECT_TRUE(found.contains({layer, kind.substr(0, 3)})) << kind;
    EXPECT_TRUE(found.contains({layer, kind.ends_with("MoE") ? "MoE" : "MLP"})) << kind;
  }
  for (const char* kind : {"embedding", "matrix", "expert", "head"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

TEST(Trace, ChangesNoBit) {
  const TraceFile file;
  const auto traced = open_engine("k3-tiny", traced_into(file));
  EngineOptions options;
  options.all_logits = true;
  const auto plain = open_engine("k3-tiny", options);
  ASSERT_TRUE(traced && plain);
  const auto one = trace(**traced, kPrompt);
  const auto other = trace(**plain, kPrompt);
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->logits, other->logits);
}

TEST(Trace, IsWholeAfterAFailedPassAndNamesTheReadThatFailed) {
  const TraceFile file;
  EngineOptions options = traced_into(file);
  options.wrap_reader = [](std::unique_ptr<io::Reader> inner) {
    io::ReadFaults faults;
    io::ReadFault fault;
    fault.from = 300;
    faults.faults.push_back(fault);
    return io::make_fault_reader(std::move(inner), faults);
  };
  const auto engine = open_engine("k3-tiny", options);
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_FALSE(trace(**engine, kPrompt));
  std::size_t failed = 0;
  for (const auto& event : file.parse()) {
    failed += event["ph"] == "b" && event["args"]["bytes"] == 0 ? 1 : 0;
  }
  EXPECT_GT(failed, 0u);
}

TEST(Trace, IsValidAfterEveryFlushWhateverTheNames) {
  const TraceFile file;
  const auto trace = ::sluice::Trace::create(file.path());
  ASSERT_TRUE(trace);
  EXPECT_TRUE(file.parse().empty());
  const auto now = Clock::now();
  std::size_t spans = 0;
  for (const std::string& name :
       {std::string("\"\\\n\x80\xff"), std::string(200'000, 'x'), std::string(3, '\0')}) {
    (*trace)->span("kind", name, 1, now, now);
    (*trace)->flush();
    for (int i = 0; i < 3000; ++i) (*trace)->span("kind", "name", 1, now, now);  // overflows
    (*trace)->flush();
    EXPECT_GT(file.parse().size(), spans + 3000);
    spans += 3000;
  }
}

TEST(Trace, RefusesAFileThatCannotBeWritten) {
  const auto trace = ::sluice::Trace::create("/no/such/folder/trace.json");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace sluice::engine
