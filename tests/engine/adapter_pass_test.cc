// One pass over sequences with different adapters, and without any.
#include <cstring>
#include <limits>

#include "engine/adapter_pool.h"
#include "engine/adapter_support.h"
#include "engine/open_files.h"
#include "model/registry.h"
#include "weights/placement.h"

namespace sluice::engine {
namespace {

/// A network without an engine around it, which has one sequence in a pass.
class AdapterPass : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRam = std::uint64_t{256} << 20;
  const model::PassLimits kLimits = {32, 32, 64, TestAdapter::kRank};

  void SetUp() override {
    auto reader = io::make_reader(io::IoMode::pread, {});
    ASSERT_TRUE(reader);
    reader_ = std::move(*reader);
    const auto files = open_files(model_, {}, reader_);
    ASSERT_TRUE(files) << files.error().message;
    auto architecture = model::open_architecture(files->checkpoint, files->ids);
    ASSERT_TRUE(architecture) << architecture.error().message;
    architecture_ = std::move(*architecture);
    const model::Blueprint& blueprint = architecture_->blueprint();
    auto vectors = model::VectorTable::load(blueprint, *reader_, ledger_);
    auto placement = weights::place(blueprint.blocks, *reader_, {}, kRam / 2);
    ASSERT_TRUE(vectors && placement);
    placement_ = std::move(*placement);
    auto trunk = weights::TrunkStream::create(blueprint.blocks, placement_, *reader_, ledger_);
    auto experts = weights::ExpertBanks::create(blueprint.blocks, placement_, *reader_, ledger_);
    ASSERT_TRUE(trunk && experts);
    trunk_ = std::move(*trunk);
    experts_ = std::move(*experts);
    auto network = architecture_->make_network({threads_, *reader_, *trunk_, *experts_, ledger_},
                                               kLimits, std::move(*vectors));
    ASSERT_TRUE(network) << network.error().message;
    network_ = std::move(*network);
    auto pool = AdapterPool::open({{"one", one_.folder()}, {"two", two_.folder()}}, blueprint,
                                  *reader_, false);
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
    pool_.load_with(*reader_, pool_.needs().all, ledger_);
  }

  /// Of sequences that begin: the logits of all their positions.
  std::vector<float> run(const std::vector<std::uint32_t>& adapters,
                         const std::vector<std::vector<std::int32_t>>& tokens) {
    std::vector<std::unique_ptr<model::SequenceState>> states;
    std::vector<std::shared_ptr<const model::Adapter>> used;
    std::vector<model::Segment> segments;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      states.push_back(*network_->new_state(kLimits.context));
      used.push_back(adapters[i] == 0 ? nullptr : *pool_.acquire(adapters[i]));
      segments.push_back({states.back().get(), tokens[i], model::Logits::all, used.back().get()});
    }
    const auto logits = network_->run({.segments = segments});
    EXPECT_TRUE(logits) << logits.error().message;
    return {logits->begin(), logits->end()};
  }

  const std::filesystem::path model_ = checkpoint_folder("qwen3-tiny");
  const TestAdapter one_{model_, {"q_proj", "v_proj", "down_proj"}, 1};
  const TestAdapter two_{model_, {"o_proj", "up_proj", "gate_proj"}, 2};
  MemoryLedger ledger_{kRam};
  ThreadPool threads_{2};
  std::unique_ptr<io::Reader> reader_;
  std::unique_ptr<model::Architecture> architecture_;
  weights::Placement placement_;
  std::unique_ptr<weights::TrunkStream> trunk_;
  std::unique_ptr<weights::ExpertBanks> experts_;
  std::unique_ptr<model::Network> network_;
  AdapterPool pool_;
};

TEST_F(AdapterPass, EachSequenceHasTheBitsThatItHasAlone) {
  const std::vector<std::vector<std::int32_t>> tokens = {
      {5, 9, 33, 7, 70}, {4, 8, 15}, {16, 23, 42, 3, 11, 60, 61, 62, 63, 64}, {7}};
  const std::vector<std::uint32_t> adapters = {1, 0, 2, 1};
  std::vector<float> expected;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> alone = run({adapters[i]}, {tokens[i]});
    EXPECT_NE(alone, run({(adapters[i] + 1) % 3}, {tokens[i]}));
    expected.insert(expected.end(), alone.begin(), alone.end());
  }
  EXPECT_EQ(run(adapters, tokens), expected);
}

TEST_F(AdapterPass, AnAdapterInUseIsNotDropped) {
  pool_.load_with(*reader_, pool_.needs().largest, ledger_);
  {
    const auto held = pool_.acquire(1);
    ASSERT_TRUE(held);
    const auto refused = pool_.acquire(2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  }
  EXPECT_TRUE(pool_.acquire(2));
  EXPECT_EQ(pool_.statistics().evictions, 1u);
}

}  // namespace
}  // namespace sluice::engine
