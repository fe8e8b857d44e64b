// The two buffers between the I/O thread and a network thread, and what each thread is told: no
// sockets, no threads.
#include "daemon/network/relay.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::daemon {
namespace {

class RelayTest : public ::testing::Test {
 protected:
  std::optional<Relay::Put> put(std::string_view bytes) {
    const std::array views{bytes};
    return relay_.put_output(views, waits_);
  }
  std::string take_output() {
    RelayBuffer buffer = relay_.make_buffer();
    tells_room_ = relay_.take_output(buffer, waits_);
    return std::string(buffer.rest());
  }
  Relay::Input take_input() {
    taken_.clear();
    return relay_.take_input(taken_, waits_);
  }
  // As much as there is room for.
  void fill_input() {
    while (const std::size_t room = relay_.room_for_input(true, waits_)) {
      relay_.push_input(std::string(room, 'x'), waits_);
    }
  }

  static constexpr LineNumber kUser = line_of_tenant(0);
  LargeBuffers large_;
  OwnedCounter waits_;
  Relay relay_{large_};
  RelayBuffer taken_{large_};
  bool tells_room_ = false;
};

TEST_F(RelayTest, TheIoThreadIsToldOnceForAllThatComesBeforeItLooks) {
  EXPECT_TRUE(relay_.push_input("PI", waits_));
  EXPECT_FALSE(relay_.push_input("NG", waits_));
  EXPECT_FALSE(take_input().is_end);
  EXPECT_EQ(taken_.rest(), "PING");
  EXPECT_TRUE(relay_.push_input("more", waits_)) << "it has looked since";
}

TEST_F(RelayTest, TheEndComesAfterTheInput) {
  relay_.push_input("last", waits_);
  EXPECT_FALSE(relay_.end_input(waits_)) << "it was told of the input";
  EXPECT_TRUE(take_input().is_end);
  EXPECT_EQ(taken_.rest(), "last");
}

TEST_F(RelayTest, TheEndAloneIsNews) {
  EXPECT_TRUE(relay_.end_input(waits_));
  EXPECT_TRUE(take_input().is_end);
}

TEST_F(RelayTest, AFullInputStopsTheNetworkThreadUntilItIsTaken) {
  relay_.set_line(kUser, waits_);
  fill_input();
  EXPECT_TRUE(relay_.take_orders(waits_).is_full) << "an order for something else does not make room";
  EXPECT_TRUE(take_input().tells_network);
  EXPECT_EQ(taken_.rest().size(), RelayBuffer::kLarge);
  EXPECT_FALSE(relay_.take_orders(waits_).is_full);
}

TEST_F(RelayTest, RoomForInputIsNoNewsToAThreadThatWasTold) {
  fill_input();
  ASSERT_TRUE(put("reply")->tells_network);
  EXPECT_FALSE(take_input().tells_network);
  EXPECT_FALSE(relay_.take_orders(waits_).is_full);
}

TEST_F(RelayTest, TheNetworkThreadIsToldOnceForAllThatComesBeforeItLooks) {
  EXPECT_TRUE(put("+O")->tells_network);
  EXPECT_FALSE(put("K")->tells_network);
  EXPECT_FALSE(relay_.order(Relay::Order::kShut, waits_));
  const Relay::Orders orders = relay_.take_orders(waits_);
  EXPECT_TRUE(orders.shuts);
  EXPECT_FALSE(orders.reports);
  EXPECT_FALSE(orders.closes);
  EXPECT_EQ(take_output(), "+OK");
  EXPECT_TRUE(relay_.order(Relay::Order::kClose, waits_)) << "it has looked since";
  EXPECT_TRUE(relay_.take_orders(waits_).closes);
}

TEST_F(RelayTest, WhatTheOutputHasNoRoomForComesWhenItHas) {
  const std::string most(RelayBuffer::kSmall, 'x');
  EXPECT_FALSE(put("ab")->is_short);
  EXPECT_EQ(put(most)->bytes, most.size() - 2);
  EXPECT_EQ(put("y")->bytes, 0U);
  EXPECT_EQ(take_output().size(), most.size());
  EXPECT_TRUE(tells_room_);
  EXPECT_EQ(put("y")->bytes, 1U);
  EXPECT_EQ(take_output(), "y");
  EXPECT_FALSE(tells_room_) << "there was room for all of it";
}

TEST_F(RelayTest, WhatFitsOfSeveralPiecesIsTheirBeginning) {
  const std::string most(RelayBuffer::kSmall - 3, 'x');
  const std::array<std::string_view, 3> views{most, "abcd", "e"};
  EXPECT_EQ(relay_.put_output(views, waits_)->bytes, RelayBuffer::kSmall);
  EXPECT_EQ(take_output(), most + "abc");
}

TEST_F(RelayTest, APeerThatHasNotLoggedInHasSmallBuffers) {
  const std::string much(RelayBuffer::kLarge, 'x');
  EXPECT_EQ(put(much)->bytes, RelayBuffer::kSmall);
  fill_input();
  take_input();
  EXPECT_EQ(taken_.rest().size(), RelayBuffer::kSmall);
  take_output();
  EXPECT_EQ(large_.taken(), 0U);
  relay_.set_line(kUser, waits_);
  EXPECT_EQ(put(much)->bytes, RelayBuffer::kLarge);
  relay_.set_line(kStrangersLine, waits_);
  EXPECT_EQ(take_output().size(), RelayBuffer::kLarge) << "what it holds stays";
  EXPECT_EQ(put(much)->bytes, RelayBuffer::kSmall);
}

TEST_F(RelayTest, LargeBuffersAreThoseOfBusyConnectionsOnly) {
  relay_.set_line(kUser, waits_);
  put(std::string(RelayBuffer::kLarge, 'x'));
  fill_input();
  EXPECT_EQ(large_.taken(), 2U);
  take_input();
  fill_input();
  EXPECT_EQ(large_.taken(), 3U) << "the I/O thread has one that is not used up";
  taken_.consume(RelayBuffer::kLarge);
  take_output();
  EXPECT_EQ(large_.taken(), 1U);
}

TEST_F(RelayTest, AReadThatFindsNothingKeepsNoLargeBuffer) {
  relay_.set_line(kUser, waits_);
  EXPECT_EQ(relay_.room_for_input(true, waits_), RelayBuffer::kLarge);
  EXPECT_FALSE(relay_.push_input("", waits_));
  EXPECT_EQ(large_.taken(), 0U);
  EXPECT_TRUE(relay_.push_input("x", waits_)) << "of nothing the I/O thread was not told";
}

TEST_F(RelayTest, WithoutALargeBufferBytesGoInSmallOnes) {
  relay_.set_line(kUser, waits_);
  for (std::uint32_t i = 0; i < LargeBuffers::kMost; ++i) ASSERT_TRUE(large_.try_take());
  EXPECT_FALSE(large_.try_take());
  EXPECT_EQ(large_.taken(), LargeBuffers::kMost);
  EXPECT_EQ(put(std::string(RelayBuffer::kLarge, 'x'))->bytes, RelayBuffer::kSmall);
  fill_input();
  take_input();
  EXPECT_EQ(taken_.rest().size(), RelayBuffer::kSmall);
  large_.give_back();
  fill_input();
  take_input();
  EXPECT_EQ(taken_.rest().size(), RelayBuffer::kLarge) << "there is one again";
}

TEST_F(RelayTest, AFailureEndsBothWaysAndTellsWhoWaits) {
  put(std::string(RelayBuffer::kSmall + 1, 'x'));
  relay_.push_input("came before", waits_);
  take_input();
  const Relay::Failed failed = relay_.fail(waits_);
  EXPECT_TRUE(failed.tells_input);
  EXPECT_TRUE(failed.tells_room);
  EXPECT_FALSE(put("z").has_value());
  EXPECT_TRUE(take_input().is_end);
}

TEST(RelayBufferTest, ItsMemoryIsNoMoreThanItHolds) {
  LargeBuffers large;
  RelayBuffer buffer(large);
  buffer.grow();
  while (buffer.room() != 0) {
    buffer.append("x");
    const std::size_t held = buffer.rest().size();
    const std::size_t most = held <= RelayBuffer::kKept    ? RelayBuffer::kKept
                             : held <= RelayBuffer::kSmall ? RelayBuffer::kSmall
                                                           : RelayBuffer::kLarge;
    ASSERT_LE(buffer.memory_bytes(), most);
  }
}

TEST(RelayBufferTest, OneThatIsUsedUpKeepsLittle) {
  LargeBuffers large;
  RelayBuffer buffer(large);
  buffer.grow();
  buffer.append(std::string(buffer.room(), 'x'));
  buffer.consume(RelayBuffer::kLarge - 1);
  EXPECT_EQ(buffer.rest(), "x");
  EXPECT_EQ(large.taken(), 1U);
  buffer.consume(1);
  EXPECT_TRUE(buffer.empty());
  EXPECT_LE(buffer.memory_bytes(), RelayBuffer::kKept);
  EXPECT_EQ(large.taken(), 0U);
  EXPECT_EQ(buffer.room(), RelayBuffer::kSmall);
}

TEST(RelayBufferTest, OneThatEndsGivesItsPlaceToOthers) {
  LargeBuffers large;
  {
    RelayBuffer buffer(large);
    buffer.grow();
    buffer.grow();
    EXPECT_EQ(large.taken(), 1U);
  }
  EXPECT_EQ(large.taken(), 0U);
}

}  // namespace
}  // namespace locksley::daemon
