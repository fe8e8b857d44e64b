// What is held of a connection's output: its numbers, and the sums of its bytes.
#include "daemon/server/session/output/held_segments.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::daemon {
namespace {

class HeldSegmentsTest : public ::testing::Test {
 protected:
  void add(std::string_view bytes) {
    HeldSegment segment{.ticket = 1, .earlier = 0, .place = {}, .earlier_place = {}};
    segment.bytes.append(bytes);
    held_.add(std::move(segment));
  }
  // Counted one by one; without a call of bytes(), which has an effect on the sums.
  std::size_t counted() {
    std::size_t sum = 0;
    for (auto number = held_.first_number(); number != held_.next_number(); ++number) {
      sum += held_.at(number).bytes.size();
    }
    return sum;
  }

  HeldSegments held_;
  proto::OutputBuffer sent_;
};

TEST_F(HeldSegmentsTest, ASegmentKeepsItsNumberWhileThoseBeforeItLeave) {
  EXPECT_EQ(held_.next_number(), 0U);
  for (const char* bytes : {"a", "b", "c"}) add(bytes);
  held_.send_first(sent_);
  EXPECT_EQ(held_.first_number(), 1U);
  EXPECT_EQ(held_.next_number(), 3U);
  EXPECT_EQ(held_.at(2).bytes.to_string(), "c");
  held_.send_first(sent_);
  held_.send_first(sent_);
  EXPECT_TRUE(held_.empty());
  EXPECT_EQ(held_.first_number(), 3U);
  EXPECT_EQ(sent_.to_string(), "abc");
}

TEST_F(HeldSegmentsTest, TheOneThatIsTakenOutAgainGivesItsNumberToTheNext) {
  for (const char* bytes : {"a", "bb"}) add(bytes);
  EXPECT_EQ(held_.take_last().bytes.to_string(), "bb");
  EXPECT_EQ(held_.next_number(), 1U);
  EXPECT_EQ(held_.bytes(), 1U);
  held_.last().bytes.append("aa");
  EXPECT_EQ(held_.bytes(), 3U) << "it is the last, which grows";
  EXPECT_EQ(held_.take_last().bytes.to_string(), "aaa");
  EXPECT_EQ(held_.bytes(), 0U);
}

TEST_F(HeldSegmentsTest, ItsSumsAreTrueWhicheverSegmentChangesOrLeaves) {
  constexpr std::size_t kMany = 6;
  const std::string much(2 * proto::OutputBuffer::kFirstChunkBytes, 'x');
  for (std::size_t changed = 0; changed < kMany; ++changed) {
    for (std::size_t leave = 0; leave < kMany; ++leave) {
      for (std::size_t i = 0; i < kMany; ++i) add("some");
      const auto first = held_.first_number();
      const std::size_t memory = held_.memory_bytes();
      held_.to_change(first + changed).bytes.append(much);
      EXPECT_EQ(held_.bytes(), counted());
      EXPECT_GE(held_.memory_bytes(), memory + much.size() - proto::OutputBuffer::kFirstChunkBytes);
      held_.to_change(first + changed).bytes.consume(1);  // and again, until it leaves
      for (std::size_t i = 0; i < leave; ++i) held_.send_first(sent_);
      EXPECT_EQ(held_.bytes(), counted()) << changed << " has changed, and " << leave << " have left";
      held_.to_change(held_.first_number()).bytes.append("more");
      held_.take_last();
      EXPECT_EQ(held_.bytes(), counted()) << changed << " has changed, and " << leave << " have left";
      add("next");
      EXPECT_EQ(held_.bytes(), counted());
      while (!held_.empty()) held_.send_first(sent_);
      EXPECT_EQ(held_.bytes(), 0U);
      EXPECT_EQ(held_.memory_bytes(), 0U);
    }
  }
}

TEST_F(HeldSegmentsTest, OnlyTheMarkedRepliesFail) {
  add("abbcd");
  HeldSegment& segment = held_.last();
  segment.marked = {{.begin = 1, .end = 3}, {.begin = 4, .end = 5}};
  segment.bytes.append("e");
  segment.fail_marked("no", proto::Protocol::kResp2);
  EXPECT_EQ(segment.bytes.to_string(), "a-no\r\nc-no\r\ne");
  segment.fail_marked("not again", proto::Protocol::kResp2);
  EXPECT_EQ(segment.bytes.to_string(), "a-no\r\nc-no\r\ne");
}

}  // namespace
}  // namespace locksley::daemon
