// Promise 6: what a drive does wrong ends in an error that names the place, and the next request
// is computed as if nothing had happened.
#include <cstring>

#include "engine/golden.h"
#include "io/fault_reader.h"

namespace sluice::engine {
namespace {

EngineOptions with_faults(io::ReadFault fault) {
  EngineOptions options;
  options.all_logits = true;
  options.chunk = 3;
  options.wrap_reader = [fault](std::unique_ptr<io::Reader> inner) {
    io::ReadFaults faults;
    faults.faults.push_back(fault);
    return io::make_fault_reader(std::move(inner), faults);
  };
  return options;
}

TEST(FailingDrive, Promise6AnyFailedReadIsNamedAndTheEngineGoesOn) {
  EngineOptions clean;
  clean.all_logits = true;
  const auto engine = open_engine("k3-tiny", clean);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto expected = trace(**engine, kShortPrompt);
  ASSERT_TRUE(expected);
  int failures = 0;
  for (std::uint64_t read = 0; read < 400; read += 7) {
    io::ReadFault fault;
    fault.from = read;
    fault.count = 1;
    const auto faulty = open_engine("k3-tiny", with_faults(fault));
    if (!faulty) {  // one of the small tensors that are read at open
      EXPECT_EQ(faulty.error().kind, ErrorKind::drive);
      continue;
    }
    auto result = trace(**faulty, kShortPrompt);
    if (!result) {
      ++failures;
      EXPECT_EQ(result.error().kind, ErrorKind::drive);
      EXPECT_NE(result.error().message.find(".safetensors"), std::string::npos)
          << result.error().message;
      result = trace(**faulty, kShortPrompt);  // the fault is over
    }
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->logits, expected->logits) << "after read " << read << " failed";
  }
  EXPECT_GT(failures, 10);
}

TEST(FailingDrive, Promise6ACancelledPassLeavesTheEngineUsable) {
  EngineOptions options;
  options.all_logits = true;
  const auto engine = open_engine("k3-tiny", options);
  ASSERT_TRUE(engine);
  const auto expected = trace(**engine, kShortPrompt);
  ASSERT_TRUE(expected);
  Cancellation cancellation;
  for (std::size_t layer = 0; layer < 9; ++layer) {
    const auto sequence = (*engine)->new_sequence();
    ASSERT_TRUE(sequence);
    FeedOptions feed;
    feed.cancellation = &cancellation;
    feed.on_progress = [&](const Progress& progress) {
      if (progress.layer == layer) cancellation.request();
    };
    const auto stopped = (*engine)->feed(**sequence, kShortPrompt, feed);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().kind, ErrorKind::interrupted);
    EXPECT_EQ((*sequence)->length(), 0u);
    cancellation.reset();
    const auto again = trace(**engine, kShortPrompt);
    ASSERT_TRUE(again);
    ASSERT_EQ(again->logits, expected->logits);
  }
}

}  // namespace
}  // namespace sluice::engine
