// Which connection gives way when limits.max_clients is reached.
#include "daemon/connection/strangers.h"

#include <gtest/gtest.h>

#include <asio/ip/address.hpp>
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
  Strangers::Entry& add(std::uint64_t id, const std::string& peer, int age) {
    entries_.emplace_back(strangers_, id, asio::ip::make_address(peer))
        .enter(kNow - std::chrono::milliseconds(age));
    return entries_.back();
  }
  std::optional<std::uint64_t> first_to_go() const { return strangers_.first_to_go(kNow); }

  static constexpr const char* kA = "192.0.2.1";
  static constexpr const char* kB = "192.0.2.2";
  static constexpr Instant kNow = Instant{} + std::chrono::hours(1);
  Strangers strangers_;
  std::deque<Strangers::Entry> entries_;
};

TEST_F(StrangersTest, TheOldestOfTheNetworkThatHasMostGoesFirst) {
  EXPECT_EQ(first_to_go(), std::nullopt);
  add(1, kA, 9000);
  EXPECT_EQ(first_to_go(), 1U);
  add(2, kB, 8000);
  Strangers::Entry& third = add(3, kB, 8500);
  EXPECT_EQ(first_to_go(), 3U);
  third.leave();
  third.leave();
  EXPECT_EQ(first_to_go(), 2U) << "both networks have one: that of kB, which comes later";
  add(4, kA, 2000);
  EXPECT_EQ(first_to_go(), 1U);
  for (Strangers::Entry& entry : entries_) entry.leave();
  EXPECT_EQ(first_to_go(), std::nullopt);
}

TEST_F(StrangersTest, NoneGoesBeforeItHadTimeToLogIn) {
  add(1, kA, 1000);
  Strangers::Entry& second = add(2, kB, 900);
  add(3, kB, 800);
  EXPECT_EQ(first_to_go(), std::nullopt);
  second.enter(kNow - std::chrono::milliseconds(1100));
  EXPECT_EQ(first_to_go(), 2U);
}

TEST_F(StrangersTest, AllAddressesOfANetworkCountTogether) {
  add(1, kA, 9000);
  add(2, kA, 9000);
  for (std::uint64_t n = 0; n < 100; ++n) add(100 + n, "2001:db8::" + std::to_string(n + 1), 5000);
  EXPECT_EQ(first_to_go(), 100U);
}

TEST_F(StrangersTest, YoungOnesOfTheLargestNetworkDoNotKeepThePlacesOfOthers) {
  for (std::uint64_t n = 0; n < 100; ++n) {
    add(100 + n, "198.51.100." + std::to_string(n + 1), 9000 - static_cast<int>(n));
  }
  add(1, kA, 900);
  Strangers::Entry& other = add(2, kA, 800);
  EXPECT_EQ(first_to_go(), 100U) << "the oldest of all";
  entries_.front().leave();
  EXPECT_EQ(first_to_go(), 101U);
  other.enter(kNow - std::chrono::milliseconds(1100));
  EXPECT_EQ(first_to_go(), 2U) << "of the largest, since it had its time";
}

TEST_F(StrangersTest, NoneGoesDuringTheFirstCheckOfItsPassword) {
  Strangers::Entry& entry = add(1, kA, 5000);
  entry.check_begins();
  EXPECT_EQ(first_to_go(), std::nullopt);
  entry.enter(kNow - std::chrono::seconds(5));  // it has failed
  EXPECT_EQ(first_to_go(), 1U);
  entry.check_begins();
  EXPECT_EQ(first_to_go(), 1U);
}

}  // namespace
}  // namespace locksley::daemon
