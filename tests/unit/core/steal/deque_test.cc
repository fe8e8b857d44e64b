#include "core/steal/deque.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <type_traits>
#include <utility>

#include "tests/support/mutex_deque.h"

namespace locksley {
namespace {

// What holds for the deque holds for its oracle.
template <class D>
class DequeTest : public ::testing::Test {};

using Deques = ::testing::Types<Deque<std::uint64_t>, MutexDeque<std::uint64_t>>;
TYPED_TEST_SUITE(DequeTest, Deques);

TYPED_TEST(DequeTest, OwnerPopsNewestFirst) {
  TypeParam deque;
  auto owner = deque.owner();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    owner.push(i);
  }
  EXPECT_EQ(owner.pop(), 3u);
  EXPECT_EQ(owner.pop(), 2u);
  EXPECT_EQ(owner.pop(), 1u);
  EXPECT_EQ(owner.pop(), std::nullopt);
}

TYPED_TEST(DequeTest, ThiefStealsOldestFirst) {
  TypeParam deque;
  auto owner = deque.owner();
  const auto thief = deque.thief();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    owner.push(i);
  }
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const Steal<std::uint64_t> got = thief.steal();
    ASSERT_EQ(got.outcome, StealOutcome::kStolen);
    EXPECT_EQ(got.value, i);
  }
  EXPECT_EQ(thief.steal().outcome, StealOutcome::kEmpty);
}

TYPED_TEST(DequeTest, EmptyDequeGivesNothingAtEitherEnd) {
  TypeParam deque;
  auto owner = deque.owner();
  const auto thief = deque.thief();
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(owner.pop(), std::nullopt);
    EXPECT_EQ(thief.steal().outcome, StealOutcome::kEmpty);
    EXPECT_TRUE(owner.empty());
    EXPECT_TRUE(thief.empty());
    EXPECT_EQ(deque.len(), 0u);
  }
}

TYPED_TEST(DequeTest, IsUsableAgainAfterItWasEmptied) {
  TypeParam deque;
  auto owner = deque.owner();
  const auto thief = deque.thief();
  for (std::uint64_t turn = 0; turn < 200; ++turn) {
    owner.push(turn);
    EXPECT_EQ(owner.pop(), turn);
    EXPECT_EQ(owner.pop(), std::nullopt);
    owner.push(turn);
    EXPECT_EQ(thief.steal().value, turn);
    EXPECT_EQ(owner.pop(), std::nullopt);
    EXPECT_EQ(thief.steal().outcome, StealOutcome::kEmpty);
  }
}

TYPED_TEST(DequeTest, LenCountsWhatIsInside) {
  TypeParam deque;
  auto owner = deque.owner();
  const auto thief = owner.thief();
  for (std::uint64_t i = 0; i < 100; ++i) {
    owner.push(i);
  }
  EXPECT_EQ(owner.len(), 100u);
  EXPECT_TRUE(thief.steal().stolen());
  EXPECT_TRUE(owner.pop().has_value());
  EXPECT_EQ(thief.len(), 98u);
  EXPECT_FALSE(deque.empty());
}

TYPED_TEST(DequeTest, GrowthKeepsEveryValueInOrder) {
  TypeParam deque;
  auto owner = deque.owner();
  const auto thief = deque.thief();
  // An offset, so that the values wrap around the end of the array when it grows.
  for (std::uint64_t i = 0; i < 20; ++i) {
    owner.push(i);
    ASSERT_TRUE(thief.steal().stolen());
  }
  constexpr std::uint64_t kCount = 10'000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    owner.push(i);
  }
  for (std::uint64_t i = 0; i < kCount / 2; ++i) {
    ASSERT_EQ(thief.steal().value, i);
    ASSERT_EQ(owner.pop(), kCount - 1 - i);
  }
  EXPECT_EQ(owner.pop(), std::nullopt);
}

TYPED_TEST(DequeTest, OwnershipPassesFromThreadToThread) {
  TypeParam deque;
  const auto thief = deque.thief();
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    std::thread([&] {
      auto owner = deque.owner();
      for (std::uint64_t i = 0; i < 50; ++i) {
        owner.push(turn * 50 + i);
      }
    }).join();
  }
  EXPECT_EQ(thief.steal().value, 0u);
  auto owner = deque.owner();
  for (std::uint64_t i = 199; i >= 1; --i) {
    ASSERT_EQ(owner.pop(), i);
  }
  EXPECT_EQ(owner.pop(), std::nullopt);
}

TYPED_TEST(DequeTest, OwnershipMovesWithItsHandle) {
  TypeParam deque;
  auto first = deque.owner();
  first.push(1);
  auto second = std::move(first);
  EXPECT_EQ(second.pop(), 1u);
}

TYPED_TEST(DequeTest, SecondOwnerAborts) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  TypeParam deque;
  auto owner = deque.owner();
  EXPECT_DEATH((void)deque.owner(), "two owners");
}

template <class H>
concept CanPush = requires(H handle) { handle.push(1); };
template <class H>
concept CanPop = requires(H handle) { handle.pop(); };
template <class H>
concept CanSteal = requires(H handle) { handle.steal(); };

TYPED_TEST(DequeTest, MisuseOfAHandleDoesNotCompile) {
  using Owner = typename TypeParam::Owner;
  using Thief = typename TypeParam::Thief;
  static_assert(CanPush<Owner> && CanPop<Owner> && !CanSteal<Owner>);
  static_assert(!CanPush<Thief> && !CanPop<Thief> && CanSteal<Thief>);
  static_assert(!CanPush<TypeParam> && !CanPop<TypeParam> && !CanSteal<TypeParam>);
  static_assert(!std::is_copy_constructible_v<Owner> && std::is_nothrow_move_constructible_v<Owner>);
  static_assert(std::is_trivially_copyable_v<Thief>);
}

// Counts the barriers of one thread.
struct CountedBarrier {
  static inline int light_count = 0;
  static inline int heavy_count = 0;
  static void light() { ++light_count; }
  static void heavy() { ++heavy_count; }
};
struct CountedAtomics : StdAtomics {
  using barrier = CountedBarrier;
};

TEST(DequeBarrierTest, AfterAStealTheOwnersPopsSpareThievesTheHeavyBarrierForAWhile) {
  constexpr std::uint32_t kCalmPops = 2;
  Deque<std::uint64_t, CountedAtomics> deque(8, kCalmPops);
  auto owner = deque.owner();
  for (std::uint64_t i = 0; i < 8; ++i) owner.push(i);
  CountedBarrier::light_count = CountedBarrier::heavy_count = 0;

  EXPECT_TRUE(deque.thief().steal().stolen());
  EXPECT_EQ(CountedBarrier::heavy_count, 1);
  EXPECT_EQ(owner.pop(), 7u);  // sees the steal, after a light barrier
  EXPECT_EQ(CountedBarrier::light_count, 1);
  EXPECT_TRUE(deque.thief().steal().stolen());
  EXPECT_EQ(CountedBarrier::heavy_count, 1) << "the owner is strict";
  EXPECT_EQ(owner.pop(), 6u);  // sees this steal: the calm pops are counted anew
  EXPECT_EQ(owner.pop(), 5u);
  EXPECT_EQ(owner.pop(), 4u);
  EXPECT_EQ(CountedBarrier::light_count, 1) << "strict pops need none";
  EXPECT_TRUE(deque.thief().steal().stolen());
  EXPECT_EQ(CountedBarrier::heavy_count, 2) << "two calm pops have ended it";
  EXPECT_EQ(owner.pop(), 3u);
  EXPECT_EQ(CountedBarrier::light_count, 2);
}

// The deque does what its oracle does, step by step, on random walks that cross the growth limits.
TEST(DequeOracleTest, AgreesWithTheMutexDeque) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    Deque<std::uint64_t> deque;
    MutexDeque<std::uint64_t> oracle;
    auto owner = deque.owner();
    auto oracle_owner = oracle.owner();
    const std::uint64_t push_percent = 35 + random() % 40;
    for (std::uint64_t step = 0; step < 5'000; ++step) {
      const std::uint64_t dice = random() % 100;
      if (dice < push_percent) {
        owner.push(step);
        oracle_owner.push(step);
      } else if (dice % 2 == 0) {
        ASSERT_EQ(owner.pop(), oracle_owner.pop()) << "seed " << seed << " step " << step;
      } else {
        const auto got = deque.thief().steal();
        const auto expected = oracle.thief().steal();
        ASSERT_EQ(got.outcome, expected.outcome) << "seed " << seed << " step " << step;
        ASSERT_EQ(got.value, expected.value) << "seed " << seed << " step " << step;
      }
      ASSERT_EQ(deque.len(), oracle.len());
    }
  }
}

}  // namespace
}  // namespace locksley
