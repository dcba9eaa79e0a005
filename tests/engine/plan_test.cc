// The plan: K3's figures from its config, and what follows from memory, drives and cores.
#include "engine/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/size.h"
#include "engine/budget.h"
#include "engine/fit.h"
#include "engine/profiles.h"
#include "io/make_reader.h"
#include "model/registry.h"

namespace sluice::engine {
namespace {

/// Kimi K3 as its config.json describes it; made once, since it has 497,052 tensors.
struct K3 {
  std::unique_ptr<model::Architecture> architecture;
  std::unique_ptr<io::Reader> reader;
  ModelLoad load;

  static const K3& get() {
    static const K3 k3 = make();
    return k3;
  }
  static K3 make() {
    K3 k3;
    k3.architecture = std::move(*model::imagine_architecture(
        std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/k3-config.json"));
    k3.reader = std::move(*io::make_reader(io::IoMode::pread));
    k3.load = load_of(*k3.architecture, 4096);
    return k3;
  }
  /// Where its bytes live at this memory size; placing 82,432 experts takes a while, so once.
  static Residence at(std::uint64_t ram) {
    static std::map<std::uint64_t, Residence> known;
    const auto found = known.find(ram);
    return found != known.end() ? found->second : known[ram] = get().place(ram);
  }
  Residence place(std::uint64_t ram) const {
    const auto fitted = fit(*architecture, *reader, {4096, 2}, ram);
    EXPECT_TRUE(fitted) << fitted.error().message;
    return residence_of(*architecture, fitted->placement, fitted->budget.chunk);
  }
};

MachineSpeeds drive_bound() {
  MachineSpeeds speeds;
  speeds.drive = 3e9;
  speeds.memory = 100e9;
  speeds.plain = 80e9;
  speeds.packed = 60e9;
  speeds.operations = 1e12;
  return speeds;
}

TEST(Plan, ATokenOfK3NeedsWhatSpec8Says) {
  const ModelLoad& load = K3::get().load;
  EXPECT_EQ(load.head_bytes, 2'348'810'240u);
  EXPECT_EQ(load.embedding_bytes, 14'336u);
  EXPECT_EQ(load.expert_bytes, 25'829'572'608u);
  // Trunk without what is resident as vectors: norms, biases, convolutions (SPEC 2).
  const std::uint64_t vectors_of_a_layer = 6 * 14'336;
  const std::uint64_t vectors_of_kda = 3 * 196'608 + 512 + 49'152 + 512;
  const std::uint64_t vectors_of_mla = 3'072 + 1'024;
  const std::uint64_t vectors_of_moe = 3'584 + 7'168;
  EXPECT_EQ(load.trunk_bytes, 108'811'877'376u - 93 * vectors_of_a_layer - 69 * vectors_of_kda -
                                  24 * vectors_of_mla - 92 * vectors_of_moe);
  // 54.4 G of trunk and 48.6 G of experts.
  EXPECT_NEAR(load.multiplies_per_position, 103.0e9, 0.1e9);
  EXPECT_TRUE(load.packed_experts);
}

TEST(Plan, AWindowCountsUpToItsLengthOnly) {
  const auto made =
      model::imagine_architecture(std::filesystem::path(SLUICE_SOURCE_DIR) /
                                  "tests/golden/mistral-window-tiny/checkpoint/config.json");
  ASSERT_TRUE(made) << made.error().message;
  const auto cache = [&](std::size_t context) {
    return load_of(**made, context).state_bytes_per_position * static_cast<double>(context);
  };
  EXPECT_GT(cache(256), 0);
  EXPECT_NEAR(cache(1 << 20), cache(256), 1);  // nothing that grows for ever
}

TEST(Plan, EveryByteOfTheTrunkIsResidentOrStreamed) {
  const K3& k3 = K3::get();
  for (const std::uint64_t size : {2u, 8u, 16u, 32u, 64u, 128u}) {
    const Residence residence = k3.at(size * kGiB);
    EXPECT_EQ(residence.resident_bytes + residence.streamed_bytes,
              k3.load.trunk_bytes + k3.load.head_bytes);
    EXPECT_LE(residence.resident_bytes + residence.ring_bytes + residence.cache_bytes, size * kGiB);
  }
}

TEST(Plan, MoreMemoryIsNeverSlowerAndNeverReadsMore) {
  const K3& k3 = K3::get();
  Prediction last;
  last.seconds = last.bytes = last.ttft_s = {INFINITY, INFINITY};
  for (const std::uint64_t size : {2u, 8u, 16u, 32u, 64u, 128u, 256u, 512u, 2048u}) {
    const Prediction now = predict(k3.load, k3.at(size * kGiB), drive_bound(), {});
    EXPECT_LE(now.seconds.low, last.seconds.low) << size;
    EXPECT_LE(now.seconds.high, last.seconds.high) << size;
    EXPECT_LE(now.bytes.high, last.bytes.high) << size;
    EXPECT_LE(now.ttft_s.low, last.ttft_s.low) << size;
    EXPECT_LE(now.bytes.low, now.bytes.high);
    EXPECT_LE(now.seconds.low, now.seconds.high);
    EXPECT_LE(now.ttft_s.low, now.ttft_s.high);
    last = now;
  }
  EXPECT_LE(last.bytes.high, 14'336.0);  // all in memory: a row of the embedding is left
}

TEST(Plan, WithNothingInMemoryATokenReadsAllOfIt) {
  const K3& k3 = K3::get();
  Residence nothing = k3.at(8 * kGiB);
  nothing.streamed_bytes += nothing.resident_bytes;
  nothing.resident_bytes = 0;
  for (Bank& bank : nothing.banks) bank.slots = 0;
  const Prediction prediction = predict(k3.load, nothing, drive_bound(), {});
  EXPECT_DOUBLE_EQ(prediction.bytes.high,
                   static_cast<double>(k3.load.weight_bytes() + k3.load.embedding_bytes));
  EXPECT_DOUBLE_EQ(prediction.bytes.low, prediction.bytes.high);
}

TEST(Plan, TheSlowestPartDecides) {
  const K3& k3 = K3::get();
  const Residence residence = k3.at(16 * kGiB);
  MachineSpeeds speeds = drive_bound();
  Prediction prediction = predict(k3.load, residence, speeds, {});
  EXPECT_EQ(prediction.token.limit(), Limit::drive);
  EXPECT_NEAR(prediction.token.drive_s, prediction.bytes.high / 3e9, 1e-9);
  speeds.plain = speeds.packed = 1e9;
  EXPECT_EQ(predict(k3.load, residence, speeds, {}).token.limit(), Limit::arithmetic);
  speeds = drive_bound();
  speeds.memory = 1e9;
  EXPECT_EQ(predict(k3.load, residence, speeds, {}).token.limit(), Limit::memory);
}

TEST(Plan, HitRatesStartAtNothingEndAtAllAndGrowBetween) {
  Bank bank = {896, 16, 0, 1};
  EXPECT_EQ(flat_hit_rate(bank), 0);
  EXPECT_EQ(local_hit_rate(bank), 0);
  double flat = 0;
  double local = 0;
  for (bank.slots = 1; bank.slots <= 896; ++bank.slots) {
    EXPECT_GT(flat_hit_rate(bank), flat);
    EXPECT_GE(local_hit_rate(bank), local);
    flat = flat_hit_rate(bank);
    local = local_hit_rate(bank);
    EXPECT_GE(local, flat);
    EXPECT_LE(local, 1);
  }
  EXPECT_EQ(flat, 1);
  EXPECT_EQ(local, 1);
  bank.slots = 224;  // a quarter: what k3-nano's best domain hits
  EXPECT_NEAR(local_hit_rate(bank), 0.493, 1e-9);
}

TEST(Plan, DistinctExpertsFollowSpec8) {
  const Bank bank = {896, 16, 0, 1};
  EXPECT_NEAR(distinct_experts(bank, 1), 16, 1e-9);
  EXPECT_NEAR(distinct_experts(bank, 8), 120, 0.5);
  EXPECT_NEAR(distinct_experts(bank, 32), 393, 0.5);
  EXPECT_NEAR(distinct_experts(bank, 64), 613, 0.5);
  EXPECT_NEAR(distinct_experts(bank, 128), 807, 0.5);
}

TEST(Plan, AdviceIsWhatHelpsMost) {
  const K3& k3 = K3::get();
  const Residence residence = k3.at(16 * kGiB);
  const Residence doubled = k3.at(32 * kGiB);
  MachineSpeeds speeds = drive_bound();
  EXPECT_EQ(advise(k3.load, residence, doubled, speeds, {}).change, Advice::Change::drive);
  speeds.drive = 1e12;
  speeds.plain = speeds.packed = 10e9;
  EXPECT_EQ(advise(k3.load, residence, doubled, speeds, {}).change, Advice::Change::cores);
  speeds.plain = speeds.packed = 1e12;
  EXPECT_EQ(advise(k3.load, residence, doubled, speeds, {}).change, Advice::Change::memory);
  // From 64 to 128 GiB nearly all of the trunk fits: more than twice the drive would give.
  EXPECT_EQ(advise(k3.load, k3.at(64 * kGiB), k3.at(128 * kGiB), drive_bound(), {}).change,
            Advice::Change::ram);
}

TEST(Plan, APromptReadsEachExpertOncePerChunk) {
  const K3& k3 = K3::get();
  Residence residence = k3.at(16 * kGiB);
  for (Bank& bank : residence.banks) bank.slots = 0;
  residence.chunk = 64;
  const double one = predict(k3.load, residence, drive_bound(), {4096, 64}).ttft_s.low;
  const double two = predict(k3.load, residence, drive_bound(), {4096, 128}).ttft_s.low;
  EXPECT_NEAR(two / one, 2, 0.02);
  residence.chunk = 128;
  EXPECT_LT(predict(k3.load, residence, drive_bound(), {4096, 128}).ttft_s.low, 0.8 * two);
}

TEST(Plan, TheSmallestFitFitsAndTheLadderIsForBigModels) {
  const K3& k3 = K3::get();
  const auto smallest = smallest_fit(*k3.architecture, *k3.reader, {4096, 2});
  ASSERT_TRUE(smallest);
  EXPECT_LT(*smallest, 2 * kGiB);
  EXPECT_TRUE(fit(*k3.architecture, *k3.reader, {4096, 2}, *smallest));
  EXPECT_FALSE(fit(*k3.architecture, *k3.reader, {4096, 2}, *smallest / 2));
  EXPECT_EQ(memory_ladder(1'560'860'324'864).size(), 5u);
  EXPECT_LT(*memory_ladder(std::uint64_t{25} << 20).rbegin(), kGiB);
}

TEST(Budget, IsByDefaultThreeQuartersOfWhatIsFree) {
  EXPECT_EQ(default_budget(0, 16 * kGiB), 12 * kGiB);
  EXPECT_EQ(default_budget(20 * kMiB, 16 * kGiB), 12 * kGiB + 20 * kMiB) << "it is not free";
  EXPECT_EQ(default_budget(20 * kMiB, 0), 20 * kMiB);
}

TEST(Plan, SpeedsOfARunAreItsBytesAndWorkOverItsTime) {
  const K3& k3 = K3::get();
  const PassTimes single = {.passes = 4, .positions = 4, .wall_s = 10, .io_wait_s = 2};
  const PassTimes many = {.passes = 2, .positions = 64, .wall_s = 9, .io_wait_s = 1};
  const MachineSpeeds speeds = speeds_of(k3.load, 3e9, single, many);
  EXPECT_EQ(speeds.drive, 3e9);
  EXPECT_DOUBLE_EQ(speeds.plain, static_cast<double>(k3.load.weight_bytes()) * 4 / 8);
  EXPECT_EQ(speeds.packed, speeds.plain);
  EXPECT_DOUBLE_EQ(speeds.operations, k3.load.multiplies_per_position * 64 / 8);
  // What they predict for a token is the arithmetic that a token took, once no bytes are missing.
  const MachineSpeeds fast = speeds_of(k3.load, 1e18, single, many);
  const Prediction prediction = predict(k3.load, k3.at(16 * kGiB), fast, {});
  EXPECT_NEAR(prediction.seconds.low, 2.0, 1e-6);
  EXPECT_EQ(prediction.token.limit(), Limit::arithmetic);
}

TEST(Plan, ProfilesAreFoundByNameAndHaveAllFigures) {
  EXPECT_GE(machine_profiles().size(), 4u);
  for (const MachineProfile& profile : machine_profiles()) {
    const MachineSpeeds speeds = find_profile(profile.name)->speeds();
    for (const double speed :
         {speeds.drive, speeds.memory, speeds.plain, speeds.packed, speeds.operations}) {
      EXPECT_GE(speed, 1e9) << profile.name;
    }
    EXPECT_LE(speeds.plain, speeds.memory) << profile.name;
  }
  EXPECT_EQ(find_profile("phone")->memory_bytes, 8 * kGiB);
  EXPECT_EQ(find_profile("phone")->speeds().drive, 1e9);
  EXPECT_EQ(find_profile("workstation")->drives, 4);
  const auto refused = find_profile("toaster");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("laptop-16"), std::string::npos);
}

}  // namespace
}  // namespace sluice::engine
