// The parker's own protocol, over a futex: no token is lost, none is taken twice.
#include "core/sync/parker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "tests/model/atomics.h"
#include "tests/model/expect.h"
#include "tests/model/explorer.h"

namespace locksley::model::parker_model {
namespace {

using ModelParker = BasicParker<ModelAtomics>;

constexpr std::chrono::nanoseconds kNoTime{0};  // the explorer lets a deadline pass whenever it likes

TEST(ParkerModelTest, EachUnparkBeforeOrDuringAParkEndsIt) {
  expect_right(
      [](Explorer& explorer) {
        ModelParker parker, other;
        explorer.run({[&] {
                        parker.park();
                        other.unpark();
                        parker.park();
                      },
                      [&] {
                        parker.unpark();
                        other.park();
                        parker.unpark();
                      }});
        return !parker.park_for(kNoTime);
      },
      {.preemptions = 6, .spurious_wakes = 2});
}

TEST(ParkerModelTest, UnparksOfTwoThreadsAreOneTokenOrTwo) {
  expect_right(
      [](Explorer& explorer) {
        ModelParker parker;
        int parks = 0;
        const auto unpark = [&] { parker.unpark(); };
        explorer.run({[&] {
                        parker.park();
                        ++parks;
                        parker.park();
                        ++parks;
                      },
                      unpark, unpark},
                     [&] { return parks == 1; });
        return parks >= 1;
      },
      {.preemptions = 6, .spurious_wakes = 2});
}

TEST(ParkerModelTest, WhatWasWrittenBeforeAnUnparkIsSeenAfterThePark) {
  expect_right(
      [](Explorer& explorer) {
        ModelParker parker;
        Atomic<std::uint64_t> written[2];
        bool right = true;
        const auto give = [&](int i) {
          return [&, i] {
            // relaxed: the token orders it.
            written[i].store(1, std::memory_order_relaxed);
            parker.unpark();
          };
        };
        explorer.run({[&] {
                        parker.park();
                        // relaxed: as above.
                        right = written[0].load(std::memory_order_relaxed) == 1 ||
                                written[1].load(std::memory_order_relaxed) == 1;
                      },
                      give(0), give(1)});
        return right;
      },
      {.preemptions = 4});
}

TEST(ParkerModelTest, TokenThatComesAtTheDeadlineIsTakenOrStays) {
  expect_right(
      [](Explorer& explorer) {
        ModelParker parker;
        int taken = 0;
        explorer.run({[&] {
                        for (int i = 0; i < 2; ++i) taken += parker.park_for(kNoTime) ? 1 : 0;
                      },
                      [&] { parker.unpark(); }});
        taken += parker.park_for(kNoTime) ? 1 : 0;
        return taken == 1;
      },
      {.preemptions = 6});
}

// The explorer would notice: a futex that begins to wait without a look at the word sleeps through
// a wake-up that came just before.
struct BlindFutex : ModelFutex {
  using ModelFutex::ModelFutex;

  void wait_while(std::uint32_t) { ModelFutex::wait_while(load()); }
};
struct BlindAtomics : ModelAtomics {
  using futex = BlindFutex;
};

TEST(ParkerModelTest, ExplorerFindsTheWakeUpThatABlindFutexMisses) {
  const Program program = [](Explorer& explorer) {
    BasicParker<BlindAtomics> parker;
    explorer.run({[&] { parker.park(); }, [&] { parker.unpark(); }});
    return true;
  };
  EXPECT_EQ(failure_of(program, {}), Failure::kDeadlock);
}

}  // namespace
}  // namespace locksley::model::parker_model
