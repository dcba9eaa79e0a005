#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/buffer.h"
#include "base/ledger.h"
#include "base/memory_info.h"
#include "base/percent.h"
#include "base/size.h"
#include "base/thread_pool.h"

namespace sluice {
namespace {

TEST(Size, ParsesWhatPeopleWrite) {
  EXPECT_EQ(parse_size("4096").value(), 4096u);
  EXPECT_EQ(parse_size("64M").value(), 64u << 20);
  EXPECT_EQ(parse_size("6g").value(), std::uint64_t{6} << 30);
  EXPECT_EQ(parse_size("1.5GiB").value(), std::uint64_t{3} << 29);
  EXPECT_EQ(parse_size("2 TB").value(), std::uint64_t{2} << 40);
}

TEST(Size, RefusesEverythingElse) {
  for (const char* bad : {"", "G", "-1G", "0", "1e3", "12X", "1GG", "nan", "inf", "9999999999T"}) {
    const auto size = parse_size(bad);
    ASSERT_FALSE(size) << bad;
    EXPECT_EQ(size.error().kind, ErrorKind::usage);
  }
}

TEST(Size, FormatsThreeFigures) {
  EXPECT_EQ(format_size(512), "512 B");
  EXPECT_EQ(format_size(3 << 10), "3.00 KiB");
  EXPECT_EQ(format_size((std::uint64_t{1} << 30) * 153 / 100), "1.53 GiB");
  EXPECT_EQ(format_size(std::uint64_t{250} << 20), "250 MiB");
}

TEST(Size, ProductsAndSumsBeyondAnyMachineStayBeyondIt) {
  EXPECT_EQ(capped_product(3, 5), 15u);
  EXPECT_EQ(capped_sum(3, 5), 8u);
  EXPECT_EQ(capped_product(std::uint64_t{1} << 40, std::uint64_t{1} << 24), kTooManyBytes);
  EXPECT_EQ(capped_product(std::uint64_t{1} << 40, std::uint64_t{1} << 20), kTooManyBytes);
  EXPECT_EQ(capped_sum(kTooManyBytes, 1), kTooManyBytes);
  EXPECT_EQ(capped_sum(~std::uint64_t{0}, 2), kTooManyBytes);
}

TEST(Ledger, RefusesWhatDoesNotFitAndNamesIt) {
  MemoryLedger ledger(std::uint64_t{10} << 20);
  ASSERT_TRUE(ledger.charge(Tenant::ring, 6 << 20));
  const Status refused = ledger.charge(Tenant::experts, 5 << 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  EXPECT_NE(refused.error().message.find("expert slots"), std::string::npos);
  EXPECT_EQ(ledger.charged(), std::uint64_t{6} << 20);
  ledger.release(Tenant::ring, 6 << 20);
  EXPECT_EQ(ledger.available(), std::uint64_t{10} << 20);
  EXPECT_EQ(ledger.most_charged(Tenant::ring), std::uint64_t{6} << 20);
}

TEST(Buffer, IsChargedForItsLifeAndZero) {
  MemoryLedger ledger(std::uint64_t{64} << 20);
  {
    auto buffer = Buffer::allocate((5 << 20) + 1, Tenant::ring, ledger);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(ledger.charged(Tenant::ring), Buffer::charge_for((5 << 20) + 1));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % (2 << 20), 0u);
    buffer->touch();
    EXPECT_EQ(buffer->bytes().back(), std::byte{0});
    const Buffer moved = std::move(*buffer);
    EXPECT_EQ(ledger.charged(Tenant::ring), Buffer::charge_for((5 << 20) + 1));
  }
  EXPECT_EQ(ledger.charged(), 0u);
}

TEST(Buffer, WhatTheSystemDoesNotGiveIsAnErrorAndNotCharged) {
  MemoryLedger ledger(~std::uint64_t{0});
  for (int again = 0; again < 3; ++again) {
    const auto refused = Buffer::allocate(std::uint64_t{1} << 60, Tenant::state, ledger);
    ASSERT_FALSE(refused) << "no machine has so many addresses";
    EXPECT_EQ(refused.error().kind, ErrorKind::memory);
    EXPECT_NE(refused.error().message.find(name_of(Tenant::state)), std::string::npos);
    EXPECT_EQ(ledger.charged(), 0u);
    const auto next = Buffer::allocate(5 << 20, Tenant::state, ledger);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(next->bytes().back(), std::byte{0});
  }
}

TEST(Memory, TheSystemTells) {
  EXPECT_GT(resident_memory(), 0u);
  EXPECT_GE(peak_resident_memory(), resident_memory() / 2);
  EXPECT_GT(available_memory(), 0u);
}

TEST(Memory, UntouchedUntilItIsUsed) {
  MemoryLedger ledger(std::uint64_t{64} << 20);
  const auto buffer = Buffer::allocate(64 << 10, Tenant::ring, ledger);
  ASSERT_TRUE(buffer);
  EXPECT_TRUE(is_untouched(buffer->data(), 64 << 10));
  buffer->data()[0] = std::byte{1};
  EXPECT_TRUE(is_untouched(buffer->data(), 64 << 10)) << "its end still is";
  buffer->data()[(64 << 10) - 1] = std::byte{1};
  EXPECT_FALSE(is_untouched(buffer->data(), 64 << 10));
  EXPECT_FALSE(is_untouched(buffer->data(), 0));
}

TEST(ThreadPool, RunsEachItemOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<std::atomic<int>> counts(97);
      pool.run(counts.size(), [&](std::size_t item, int worker) {
        ASSERT_LT(worker, pool.threads());
        counts[item].fetch_add(1);
      });
      for (const auto& count : counts) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(PercentDecoding, TakesWholeEscapesOnly) {
  EXPECT_EQ(percent_decoded("a%20b%2f%C3%a4+"), "a b/\u00e4+");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
  for (const char* malformed : {"%", "a%2", "%2g", "%+1", "%-1", "% 1", "%%20"}) {
    EXPECT_EQ(percent_decoded(malformed), std::nullopt) << malformed;
  }
}

}  // namespace
}  // namespace sluice
