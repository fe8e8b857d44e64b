#include "core/sync/atomic_pair.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/support/threads.h"

namespace locksley {
namespace {

WordPair load(const AtomicPair& pair) {
  return {pair.load_low(std::memory_order_seq_cst), pair.load_high(std::memory_order_seq_cst)};
}

TEST(AtomicPairTest, StartsAtZero) {
  const AtomicPair pair;
  EXPECT_EQ(load(pair), (WordPair{0, 0}));
}

TEST(AtomicPairTest, SwapsBothHalvesWhenBothAreAsExpected) {
  AtomicPair pair;
  WordPair expected{0, 0};
  EXPECT_TRUE(pair.compare_exchange(expected, {1, ~std::uint64_t{0}}));
  EXPECT_EQ(load(pair), (WordPair{1, ~std::uint64_t{0}}));
  EXPECT_EQ(expected, (WordPair{0, 0}));
}

TEST(AtomicPairTest, FailsAndTellsThePairWhenOneHalfDiffers) {
  AtomicPair pair;
  WordPair expected{0, 0};
  ASSERT_TRUE(pair.compare_exchange(expected, {3, 4}));
  for (const WordPair wrong : {WordPair{3, 5}, WordPair{2, 4}, WordPair{4, 3}}) {
    expected = wrong;
    EXPECT_FALSE(pair.compare_exchange(expected, {7, 7}));
    EXPECT_EQ(expected, (WordPair{3, 4}));
    EXPECT_EQ(load(pair), (WordPair{3, 4}));
  }
}

TEST(AtomicPairTest, NoUpdateIsLostBetweenThreads) {
  constexpr std::uint64_t kEach = 20'000;
  constexpr std::size_t kThreads = 3;
  AtomicPair pair;
  testing::run_together(kThreads, [&](std::size_t) {
    WordPair known;
    for (std::uint64_t i = 0; i < kEach; ++i) {
      while (!pair.compare_exchange(known, {known.low + 1, known.high - 1})) {
      }
    }
  });
  EXPECT_EQ(load(pair), (WordPair{kThreads * kEach, std::uint64_t{0} - kThreads * kEach}));
}

// The second rule of the class: what was loaded in halves may be torn, but a swap that expects it
// succeeds only if it was not.
TEST(AtomicPairTest, SwapNeverSucceedsOnATornPair) {
  constexpr std::uint64_t kTurns = 20'000;
  AtomicPair pair;  // high is always twice low
  std::atomic<std::uint64_t> wrong = 0;
  testing::run_together(2, [&](std::size_t) {
    for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
      WordPair seen = load(pair);
      const bool torn = seen.high != 2 * seen.low;
      if (pair.compare_exchange(seen, {seen.low + 1, 2 * (seen.low + 1)}) && torn) {
        ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(load(pair).high, 2 * load(pair).low);
}

// What was written before a swap is seen after a load of the low half, and after a swap
// (ThreadSanitizer checks).
TEST(AtomicPairTest, SwapPublishesPlainMemory) {
  AtomicPair pair;
  std::uint64_t by_load = 0;
  std::uint64_t by_swap = 0;
  testing::run_together(3, [&](std::size_t thread) {
    if (thread == 0) {
      by_load = 42;
      by_swap = 43;
      WordPair expected{0, 0};
      // Sequentially consistent: [pair-test] pairs with the other threads.
      EXPECT_TRUE(pair.compare_exchange(expected, {1, 1}));
      return;
    }
    testing::Patience patience("the pair to change");
    if (thread == 1) {
      // [pair-test] acquire: pairs with the swap by the first thread.
      while (pair.load_low(std::memory_order_acquire) == 0) {
        patience.wait();
      }
      EXPECT_EQ(by_load, 42u);
      return;
    }
    WordPair expected{1, 1};
    while (!pair.compare_exchange(expected, {2, 2})) {
      expected = {1, 1};
      patience.wait();
    }
    EXPECT_EQ(by_swap, 43u);
  });
  EXPECT_EQ(load(pair), (WordPair{2, 2}));
}

}  // namespace
}  // namespace locksley
