// The store on a disk that loses power.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "tests/support/faulty_file_system.h"
#include "tests/support/rocks_disk.h"
#include "tests/support/seed.h"
#include "tests/support/store_endurance.h"

namespace locksley::daemon {
namespace {

using testing::Endurance;
using testing::FaultyFileSystem;
using testing::files_of;
using ::testing::HasSubstr;
using Tail = FaultyFileSystem::Tail;

// Runs a store several times, each ended by a power loss, mostly during an operation. Returns why
// it could not be opened after one, if so.
std::string lose_power_again_and_again(Tail tail, std::uint64_t seed,
                                       config::Durability durability = config::Durability::kFsync) {
  SCOPED_TRACE(fmt::format("LOCKSLEY_SEED={}", seed));
  std::mt19937_64 random(seed);
  Endurance store(seed, durability);
  FaultyFileSystem& disk = files_of(store.bench());
  for (std::uint64_t life = 1 + random() % 3; life > 0; --life) {
    disk.cut_power(random() % 120);
    if (!store.run(10 + random() % 60) && disk.has_power()) return store.error();
    if (random() % 4 != 0) disk.cut_power();
    store.end();
    disk.lose_power(tail);
  }
  if (!store.run(0)) return store.error();
  store.end();
  store.finish();
  return "";
}

constexpr std::uint64_t kSeeds = 100;

void expect_to_survive(Tail tail) {
  const std::uint64_t first = testing::stress_seed();
  testing::for_each_number(
      4, kSeeds, [&](std::uint64_t i) { EXPECT_EQ(lose_power_again_and_again(tail, first + i), ""); });
}

TEST(StorePowerLossTest, WhatWasAcknowledgedIsThereAndNothingIsThereByHalf) {
  expect_to_survive(Tail::kLost);
}

// While many jobs are being added to one of these.
TEST(StorePowerLossTest, ABatchThatIsForgottenLeavesItsOutcomeToThoseThatWaitedForIt) {
  const std::uint64_t first = 2 * testing::stress_seed();  // large writes are written in parts (Endurance)
  testing::for_each_number(4, 20, [&](std::uint64_t i) {
    SCOPED_TRACE(fmt::format("LOCKSLEY_SEED={}", first / 2 + i));
    std::mt19937_64 random(first + 2 * i);
    Endurance store(first + 2 * i);
    FaultyFileSystem& disk = files_of(store.bench());
    store.at_forget = [&] { disk.cut_power(random() % 12); };
    for (int life = 0; life < 3; ++life) {
      EXPECT_TRUE(store.run(100)) << store.error();
      disk.cut_power();
      store.end();
      disk.lose_power(Tail::kLost);
    }
    EXPECT_TRUE(store.run(0)) << store.error();
    store.end();
    store.finish();
  });
}

TEST(StorePowerLossTest, ATornTailTakesNothingWithIt) { expect_to_survive(Tail::kTorn); }

TEST(StorePowerLossTest, WithoutFsyncItIsAsItStoodAtSomeMoment) {
  const std::uint64_t first = testing::stress_seed();
  testing::for_each_number(4, kSeeds, [&](std::uint64_t i) {
    const auto durability = i % 2 == 0 ? config::Durability::kAsync : config::Durability::kNone;
    const Tail tail = i % 4 < 2 ? Tail::kTorn : Tail::kPages;
    EXPECT_EQ(lose_power_again_and_again(tail, first + i, durability), "");
  });
}

// Some file systems leave such files after a power loss, if the pages of a file were written in any
// order. RocksDB cannot tell all of them from damage.
TEST(StorePowerLossTest, GarbageBehindATornTailIsRefusedOrTakesNothingWithIt) {
  constexpr std::array kTails{Tail::kZeros, Tail::kNoise, Tail::kPages};
  const std::uint64_t first = testing::stress_seed();
  testing::for_each_number(4, kSeeds, [&](std::uint64_t i) {
    const std::string error = lose_power_again_and_again(kTails[i % kTails.size()], first + i);
    if (!error.empty()) {
      EXPECT_THAT(error, HasSubstr("is damaged"));
    }
  });
}

}  // namespace
}  // namespace locksley::daemon
