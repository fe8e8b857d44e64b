// Which connection gives way when limits.max_clients is reached.
#include "daemon/connection/strangers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace locksley::daemon {
namespace {

class StrangersTest : public ::testing::Test {
 protected:
  // `age`: in milliseconds, at kNow.
  Strangers::Place& add(std::uint64_t id, const std::string& address, int age) {
    places_.emplace_back(strangers_, id, address).enter(kNow - std::chrono::milliseconds(age));
    return places_.back();
  }
  std::optional<std::uint64_t> first_to_go() const { return strangers_.first_to_go(kNow); }

  static constexpr Instant kNow = Instant{} + std::chrono::hours(1);
  Strangers strangers_;
  std::deque<Strangers::Place> places_;
};

TEST_F(StrangersTest, TheOldestOfTheAddressThatHasMostGoesFirst) {
  EXPECT_EQ(first_to_go(), std::nullopt);
  add(1, "a", 9000);
  EXPECT_EQ(first_to_go(), 1U);
  add(2, "b", 8000);
  Strangers::Place& third = add(3, "b", 8500);
  EXPECT_EQ(first_to_go(), 3U);
  third.leave();
  third.leave();
  EXPECT_EQ(first_to_go(), 2U) << "both addresses have one: that of b, whose name comes later";
  add(4, "a", 2000);
  EXPECT_EQ(first_to_go(), 1U);
  for (Strangers::Place& place : places_) place.leave();
  EXPECT_EQ(first_to_go(), std::nullopt);
}

TEST_F(StrangersTest, NoneGoesBeforeItHadTimeToLogIn) {
  add(1, "a", 5000);
  Strangers::Place& second = add(2, "b", 900);
  add(3, "b", 800);
  EXPECT_EQ(first_to_go(), std::nullopt);
  second.enter(kNow - std::chrono::milliseconds(1100));
  EXPECT_EQ(first_to_go(), 2U);
}

TEST_F(StrangersTest, NoneGoesDuringTheFirstCheckOfItsPassword) {
  Strangers::Place& place = add(1, "a", 5000);
  place.check_begins();
  EXPECT_EQ(first_to_go(), std::nullopt);
  place.enter(kNow - std::chrono::seconds(5));  // it has failed
  EXPECT_EQ(first_to_go(), 1U);
  place.check_begins();
  EXPECT_EQ(first_to_go(), 1U);
}

}  // namespace
}  // namespace locksley::daemon
