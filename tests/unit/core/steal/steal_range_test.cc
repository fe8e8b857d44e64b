#include "core/steal/steal_range.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

namespace locksley {
namespace {

struct Tag {
  const void* batch;
  std::uint64_t number;
};

TEST(StealRangeTest, OwnerTakesFromTheLowEnd) {
  StealRange<> range;
  auto owner = range.owner();
  owner.publish({100, 110});
  EXPECT_EQ(owner.take(3), (IndexRange{100, 103}));
  EXPECT_EQ(owner.take(3), (IndexRange{103, 106}));
  EXPECT_EQ(owner.take(100), (IndexRange{106, 110}));
  EXPECT_TRUE(owner.take(1).empty());
}

TEST(StealRangeTest, ThiefStealsTheUpperHalfRoundedUp) {
  StealRange<> range;
  auto owner = range.owner();
  const auto thief = range.thief();
  owner.publish({100, 111});
  const std::vector<IndexRange> expected = {{105, 111}, {102, 105}, {101, 102}, {100, 101}};
  for (const IndexRange& half : expected) {
    const auto got = thief.steal();
    ASSERT_EQ(got.outcome, StealOutcome::kStolen);
    EXPECT_EQ(got.value.range, half);
  }
  EXPECT_EQ(thief.steal().outcome, StealOutcome::kEmpty);
  EXPECT_TRUE(owner.take(1).empty());
}

TEST(StealRangeTest, NothingPublishedIsEmptyForBoth) {
  StealRange<Tag> range;
  auto owner = range.owner();
  EXPECT_TRUE(owner.take(1).empty());
  EXPECT_TRUE(owner.take_burst(1).empty());
  EXPECT_TRUE(owner.take_all().empty());
  EXPECT_EQ(range.thief().steal().outcome, StealOutcome::kEmpty);
  EXPECT_TRUE(range.empty());
}

TEST(StealRangeTest, AnOwnerMayComeWhenTheLastOneHasGone) {
  StealRange<> range;
  {
    auto first = range.owner();
    first.publish({0, 4});
    EXPECT_DEATH((void)range.owner(), "two owners");
    auto moved = std::move(first);
    EXPECT_EQ(moved.take_all(), (IndexRange{0, 4}));
  }
  auto second = range.owner();
  second.publish({7, 9});
  EXPECT_EQ(second.take(2), (IndexRange{7, 9}));
}

TEST(StealRangeTest, PublishingAnEmptyRangeChangesNothing) {
  StealRange<> range;
  auto owner = range.owner();
  owner.publish({7, 7});
  EXPECT_TRUE(range.empty());
  owner.publish({7, 8});
  EXPECT_EQ(owner.take(1), (IndexRange{7, 8}));
}

TEST(StealRangeTest, BurstIsAQuarterOfWhatIsLeftAndAtMostMax) {
  StealRange<> range;
  auto owner = range.owner();
  owner.publish({0, 100});
  EXPECT_EQ(owner.take_burst(10), (IndexRange{0, 10}));   // max
  EXPECT_EQ(owner.take_burst(50), (IndexRange{10, 32}));  // 90 / 4
  EXPECT_EQ(owner.take(64), (IndexRange{32, 96}));
  EXPECT_EQ(owner.take_burst(50), (IndexRange{96, 97}));  // 4 / 4
  EXPECT_EQ(owner.take_burst(50), (IndexRange{97, 98}));  // 3 / 4, so one
  EXPECT_EQ(owner.take_burst(50), (IndexRange{98, 99}));
  EXPECT_EQ(owner.take_burst(50), (IndexRange{99, 100}));  // the last
  EXPECT_TRUE(owner.take_burst(50).empty());
}

TEST(StealRangeTest, TakeAllClosesTheRange) {
  StealRange<> range;
  auto owner = range.owner();
  owner.publish({0, 100});
  EXPECT_EQ(owner.take(10).size(), 10u);
  EXPECT_TRUE(range.thief().steal().stolen());
  EXPECT_EQ(owner.take_all(), (IndexRange{10, 55}));
  EXPECT_EQ(range.thief().steal().outcome, StealOutcome::kEmpty);
  EXPECT_TRUE(owner.take_all().empty());
  EXPECT_EQ(owner.len(), 0u);
}

TEST(StealRangeTest, OwnerLearnsOfASteal) {
  StealRange<> range;
  auto owner = range.owner();
  owner.publish({0, 8});
  EXPECT_EQ(range.thief().steal().value.range, (IndexRange{4, 8}));
  EXPECT_EQ(owner.len(), 8u) << "the owner has not looked yet";
  EXPECT_EQ(owner.take(8), (IndexRange{0, 4}));
  EXPECT_EQ(owner.len(), 0u);
}

TEST(StealRangeTest, ThiefGetsThePayloadOfTheRangeThatItStoleFrom) {
  int batches[2] = {};
  StealRange<Tag> range;
  auto owner = range.owner();
  const auto thief = range.thief();
  owner.publish({10, 20}, {&batches[0], 77});
  const auto first = thief.steal();
  EXPECT_EQ(first.value.payload.batch, &batches[0]);
  EXPECT_EQ(first.value.payload.number, 77u);
  EXPECT_EQ(owner.take_all().size(), 5u);
  owner.publish({5, 9}, {&batches[1], 78});
  const auto second = thief.steal();
  EXPECT_EQ(second.value.range, (IndexRange{7, 9}));
  EXPECT_EQ(second.value.payload.batch, &batches[1]);
  EXPECT_EQ(second.value.payload.number, 78u);
}

TEST(StealRangeTest, SameIndexesMayBePublishedAgainAndAgain) {
  StealRange<> range;
  auto owner = range.owner();
  for (int turn = 0; turn < 1'000; ++turn) {
    owner.publish({0, 3});
    EXPECT_EQ(owner.take(1), (IndexRange{0, 1}));
    EXPECT_EQ(range.thief().steal().value.range, (IndexRange{2, 3}));
    EXPECT_EQ(owner.take(5), (IndexRange{1, 2}));
    EXPECT_TRUE(owner.take(1).empty());
  }
}

TEST(StealRangeTest, IndexesReachToTheEndsOf64Bits) {
  constexpr std::uint64_t kTop = ~std::uint64_t{0};
  StealRange<> range;
  auto owner = range.owner();
  owner.publish({0, StealRange<>::kMaxLen});
  EXPECT_EQ(range.thief().steal().value.range,
            (IndexRange{StealRange<>::kMaxLen / 2, StealRange<>::kMaxLen}));
  EXPECT_EQ(owner.take_all(), (IndexRange{0, StealRange<>::kMaxLen / 2}));
  owner.publish({kTop - 4, kTop});
  EXPECT_EQ(range.thief().steal().value.range, (IndexRange{kTop - 2, kTop}));
  EXPECT_EQ(owner.take(9), (IndexRange{kTop - 4, kTop - 2}));
}

// Whatever owner and thief do, in whatever order, each index comes out once.
TEST(StealRangeTest, RandomTakersGetEachIndexOnce) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    StealRange<> range;
    auto owner = range.owner();
    const auto thief = range.thief();
    std::uint64_t next = random() % 1'000;
    for (int publication = 0; publication < 10; ++publication) {
      const IndexRange all{next, next + 1 + random() % 300};
      next = all.high;
      std::vector<int> taken(all.size());
      const auto mark = [&](const IndexRange& got) {
        for (std::uint64_t i = got.low; i != got.high; ++i) {
          ++taken.at(i - all.low);
        }
      };
      owner.publish(all);
      while (!range.empty()) {
        switch (random() % 4) {
          case 0:
            mark(owner.take(1 + random() % 20));
            break;
          case 1:
            mark(owner.take_burst(1 + random() % 20));
            break;
          case 2:
            mark(thief.steal().value.range);
            break;
          default:
            if (random() % 20 == 0) {
              mark(owner.take_all());
            }
        }
      }
      EXPECT_TRUE(owner.take(1).empty());
      ASSERT_EQ(taken, std::vector<int>(all.size(), 1)) << "seed " << seed;
    }
  }
}

TEST(StealRangeTest, BugsAbort) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  StealRange<> range;
  auto owner = range.owner();
  EXPECT_DEATH((void)range.owner(), "two owners");
  EXPECT_DEATH(owner.publish({0, StealRange<>::kMaxLen + 1}), "too long");
  owner.publish({0, 2});
  EXPECT_DEATH(owner.publish({2, 4}), "before the last one is used up");
}

template <class H>
concept CanTake = requires(H handle) { handle.take(1); };
template <class H>
concept CanPublish = requires(H handle) { handle.publish(IndexRange{}); };
template <class H>
concept CanStealRange = requires(H handle) { handle.steal(); };

TEST(StealRangeTest, MisuseOfAHandleDoesNotCompile) {
  using Owner = StealRange<>::Owner;
  using Thief = StealRange<>::Thief;
  static_assert(CanTake<Owner> && CanPublish<Owner> && !CanStealRange<Owner>);
  static_assert(!CanTake<Thief> && !CanPublish<Thief> && CanStealRange<Thief>);
  static_assert(!CanTake<StealRange<>> && !CanPublish<StealRange<>> && !CanStealRange<StealRange<>>);
  static_assert(!std::is_copy_constructible_v<Owner> && std::is_nothrow_move_constructible_v<Owner>);
  static_assert(std::is_trivially_copyable_v<Thief>);
}

}  // namespace
}  // namespace locksley
