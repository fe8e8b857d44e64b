#include "core/lane/slot_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/support/seed.h"

namespace locksley {
namespace {

using Occupation = SlotTimes::Occupation;
using std::chrono::seconds;

class SlotTimesTest : public ::testing::Test {
 protected:
  // The end of a lease that has begun.
  Nanoseconds settle(Occupation& lease, Nanoseconds now) {
    return slots.release(lease, now, /*has_begun=*/true);
  }
  // Of one that has not.
  Nanoseconds give_back(Occupation& lease, Nanoseconds now) {
    return slots.release(lease, now, /*has_begun=*/false);
  }

  SlotTimes slots{4};
  Occupation a, b, c;
};

TEST_F(SlotTimesTest, ALeaseIsChargedFromItsClaimToItsSettlement) {
  slots.occupy(a, 0, 1, seconds(10));
  EXPECT_EQ(slots.so_far(a, seconds(12)), seconds(2));
  EXPECT_EQ(settle(a, seconds(15)), seconds(5));
}

TEST_F(SlotTimesTest, TheSecondLeaseIsChargedFromTheEndOfTheFirst) {
  slots.occupy(a, 0, 1, seconds(10));
  slots.occupy(b, 0, 1, seconds(12));
  EXPECT_EQ(slots.in_front(a), 1U);
  EXPECT_EQ(slots.in_front(b), 0U);
  EXPECT_EQ(slots.so_far(b, seconds(15)), seconds(0));
  EXPECT_EQ(settle(a, seconds(20)), seconds(10));
  EXPECT_EQ(slots.in_front(b), 1U);
  EXPECT_EQ(slots.so_far(b, seconds(21)), seconds(1));
  EXPECT_EQ(settle(b, seconds(23)), seconds(3));
}

TEST_F(SlotTimesTest, TheLeaseThatIsSettledFirstPaysForTheTimeOfBoth) {
  slots.occupy(a, 0, 1, seconds(10));
  slots.occupy(b, 0, 1, seconds(12));
  EXPECT_EQ(settle(b, seconds(20)), seconds(8));
  EXPECT_EQ(settle(a, seconds(21)), seconds(2 + 1));
}

TEST_F(SlotTimesTest, ALeaseThatGoesBackBeforeItHasBegunPaysNothingForItsWait) {
  slots.occupy(a, 0, 1, seconds(10));
  slots.occupy(b, 0, 1, seconds(12));
  EXPECT_EQ(give_back(b, seconds(20)), seconds(0));
  EXPECT_EQ(slots.so_far(a, seconds(21)), seconds(11));
  slots.occupy(c, 0, 1, seconds(22));
  EXPECT_EQ(give_back(c, seconds(25)), seconds(0));
  EXPECT_EQ(settle(a, seconds(30)), seconds(20)) << "the lease in front pays for the whole time";
  EXPECT_EQ(slots.idle(), 4U);
}

TEST_F(SlotTimesTest, ALeaseThatGoesBackPaysForTheSlotsOnWhichItIsInFront) {
  slots.occupy(a, 1, 1, seconds(0));
  slots.occupy(b, 0, 2, seconds(2));
  EXPECT_EQ(give_back(b, seconds(5)), seconds(3));
  EXPECT_EQ(settle(a, seconds(6)), seconds(6));
}

TEST_F(SlotTimesTest, AWideLeasePaysForEachOfItsSlots) {
  slots.occupy(a, 1, 1, seconds(0));
  slots.occupy(b, 0, 3, seconds(2));
  EXPECT_EQ(slots.in_front(b), 2U);
  EXPECT_EQ(slots.so_far(b, seconds(4)), seconds(2 * 2));
  EXPECT_EQ(settle(a, seconds(5)), seconds(5));
  EXPECT_EQ(settle(b, seconds(6)), seconds(4 + 1 + 4));
}

TEST_F(SlotTimesTest, ALeaseBehindWhoseJobHasRunPaysForTheTimeAndComesToTheFront) {
  a.name = 7;
  slots.occupy(a, 0, 1, seconds(10));
  slots.occupy(b, 0, 1, seconds(10));
  EXPECT_EQ(slots.ran(b, seconds(13)), 7U);
  EXPECT_EQ(slots.in_front(a), 0U);
  EXPECT_EQ(slots.in_front(b), 1U);
  EXPECT_EQ(give_back(a, seconds(13)), seconds(0));
  EXPECT_EQ(settle(b, seconds(14)), seconds(4));
}

TEST_F(SlotTimesTest, ALeasePaysForTheTimeSinceTheLastJobThatRan) {
  slots.occupy(a, 0, 1, seconds(0));
  slots.occupy(b, 0, 1, seconds(1));
  EXPECT_EQ(slots.ran(a, seconds(5)), std::nullopt) << "it is in front";
  EXPECT_TRUE(slots.ran(b, seconds(6)));
  EXPECT_EQ(slots.ran(b, seconds(8)), std::nullopt);
  EXPECT_TRUE(slots.ran(a, seconds(9)));
  EXPECT_EQ(slots.so_far(b, seconds(10)), seconds(3));
  EXPECT_EQ(settle(a, seconds(10)), seconds(5 + 2));
  EXPECT_EQ(settle(b, seconds(10)), seconds(3));
}

TEST_F(SlotTimesTest, AWideLeaseBehindWhoseJobHasRunComesToTheFrontOfOneSlot) {
  slots.occupy(a, 0, 3, seconds(0));
  slots.occupy(b, 0, 3, seconds(0));
  EXPECT_TRUE(slots.ran(b, seconds(2)));
  EXPECT_EQ(slots.in_front(a), 2U) << "its jobs may run there";
  EXPECT_EQ(slots.ran(a, seconds(3)), std::nullopt);
  EXPECT_EQ(slots.ran(b, seconds(4)), std::nullopt);
  EXPECT_EQ(slots.so_far(a, seconds(4)), seconds(2 * 4));
  EXPECT_EQ(slots.so_far(b, seconds(4)), seconds(4));
}

TEST_F(SlotTimesTest, ALeaseThatGivesWayBeforeItHasBegunLeavesItsTimeToTheOther) {
  slots.occupy(a, 0, 2, seconds(0));
  slots.occupy(b, 1, 1, seconds(1));
  slots.give_way(a);
  EXPECT_EQ(give_back(a, seconds(4)), seconds(4 + 1))
      << "of the slot where it was alone, and of the time when it was";
  EXPECT_EQ(slots.in_front(b), 1U);
  EXPECT_EQ(settle(b, seconds(5)), seconds(4));
}

TEST_F(SlotTimesTest, TheLeaseInFrontOfASlotHasItsHoldersName) {
  EXPECT_EQ(slots.front(0), std::nullopt);
  a.name = 7;
  b.name = 8;
  slots.occupy(a, 0, 1, seconds(0));
  slots.occupy(b, 0, 2, seconds(1));
  EXPECT_EQ(slots.front(0), 7U);
  EXPECT_EQ(slots.front(1), 8U);
  settle(a, seconds(2));
  EXPECT_EQ(slots.front(0), 8U);
  settle(b, seconds(3));
  EXPECT_EQ(slots.front(0), std::nullopt);
}

TEST_F(SlotTimesTest, ALeaseWithoutASlotGetsTheEmptiestOnes) {
  EXPECT_EQ(slots.find(1), 0U);
  slots.occupy(a, 0, 2, seconds(0));
  EXPECT_EQ(slots.find(1), 2U);
  EXPECT_EQ(slots.find(2), 2U);
  EXPECT_EQ(slots.find(3), 0U) << "no three are empty";
  slots.occupy(b, 0, 3, seconds(0));
  EXPECT_EQ(slots.find(1), 3U);
  EXPECT_EQ(slots.find(2), 2U);
  EXPECT_EQ(slots.find(3), std::nullopt) << "two leases a slot";
  EXPECT_EQ(slots.idle(), 1U);
  EXPECT_TRUE(slots.has_room(2, 2));
  EXPECT_FALSE(slots.has_room(1, 2));
  EXPECT_FALSE(slots.has_room(3, 2)) << "beyond the last slot";
  EXPECT_FALSE(slots.has_room(4'000'000'000U, 1));
  EXPECT_EQ(slots.find(5), std::nullopt);
}

TEST_F(SlotTimesTest, AClockThatStandsStillOrGoesBackChargesNothing) {
  slots.occupy(a, 0, 1, seconds(10));
  EXPECT_EQ(slots.so_far(a, seconds(9)), seconds(0));
  slots.occupy(b, 0, 1, seconds(5));
  EXPECT_EQ(settle(a, seconds(10)), seconds(0));
  EXPECT_EQ(settle(b, seconds(11)), seconds(1));
}

// Each moment of a slot that has a lease is charged once, whatever the order.
TEST_F(SlotTimesTest, ChargesAddUpToTheOccupiedTime) {
  auto random = testing::stress_random(2);
  std::deque<Occupation> leases;
  std::vector<Occupation*> out;
  Nanoseconds now{}, charged{}, occupied{};
  for (int step = 0; step < 20'000; ++step) {
    const Nanoseconds later = now + Nanoseconds(random() % 100);
    occupied += (later - now) * (slots.size() - slots.idle());
    now = later;
    if (!out.empty()) (void)slots.ran(*out[random() % out.size()], now);
    const auto width = static_cast<std::uint32_t>(1 + random() % 4);
    const auto first = slots.find(width);
    if (random() % 2 == 0 && first) {
      out.push_back(&leases.emplace_back());
      slots.occupy(*out.back(), *first, width, now);
    } else if (!out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      if (random() % 4 == 0) slots.give_way(*out.back());
      const Nanoseconds so_far = slots.so_far(*out.back(), now);
      const Nanoseconds service = slots.release(*out.back(), now, /*has_begun=*/random() % 2 == 0);
      ASSERT_GE(service, so_far);
      charged += service;
      out.pop_back();
    }
  }
  for (Occupation* lease : out) charged += settle(*lease, now);
  EXPECT_EQ(charged, occupied);
  EXPECT_EQ(slots.idle(), 4U);
}

using SlotTimesDeathTest = SlotTimesTest;
TEST_F(SlotTimesDeathTest, AThirdLeaseOnASlotAborts) {
  slots.occupy(a, 0, 1, seconds(0));
  slots.occupy(b, 0, 1, seconds(0));
  EXPECT_DEATH(slots.occupy(c, 0, 1, seconds(0)), "have no room");
}

}  // namespace
}  // namespace locksley
