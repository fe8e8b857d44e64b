// The replies of a connection: which may be sent, and which wait for the store.
#include "daemon/server/session/output/session_output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace locksley::daemon {
namespace {

class SessionOutputTest : public ::testing::Test {
 protected:
  void write(std::string_view text) { output_.end().append(text); }
  void write_held(Ticket ticket, std::string_view text, Ticket earlier = 0) LOCKSLEY_REQUIRES(kIoThread) {
    output_.hold(ticket, earlier);
    const std::size_t begin = output_.end().size();
    write(text);
    output_.mark(begin, output_.end().size());
  }
  std::string sendable() const { return output_.sendable().to_string(); }

  HeldReplies queue_;
  std::size_t errors_ = 0;
  SessionOutput output_{queue_, [this](SessionOutput::HeldNumber held, const std::string& error) {
                          errors_ += output_.release(held, error, proto::Protocol::kResp2);
                        }};
};

TEST_F(SessionOutputTest, RepliesAfterAHeldOneWaitWithIt) {
  const ThreadRoleScope io_thread(kIoThread);
  write("a");
  write_held(3, "b");
  write("c");
  EXPECT_EQ(sendable(), "a");
  EXPECT_EQ(output_.size(), 3u);
  queue_.settle_some({.up_to = 2, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a");
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "abc");
  EXPECT_FALSE(output_.is_held());
  EXPECT_TRUE(queue_.empty());
}

TEST_F(SessionOutputTest, AnEarlierTicketAfterALaterOneWaitsForTheLater) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(5, "a");
  write_held(4, "b");
  queue_.settle_some({.up_to = 4, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "");
  queue_.settle_some({.up_to = 5, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "ab");
}

// Such as a repeated ADDAT, after a SUBMIT in the same pipeline.
TEST_F(SessionOutputTest, AReplyAboutAnEarlierWriteHasTheOutcomeOfThatWrite) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(6, "a");
  write_held(5, "b");
  write("c");
  write_held(6, "d");
  queue_.settle_some({.up_to = 5, .error = "no"}, Instant::max());
  EXPECT_EQ(sendable(), "");
  EXPECT_EQ(errors_, 1u);
  queue_.settle_some({.up_to = 6, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a-no\r\ncd");
  EXPECT_FALSE(output_.is_held());
  write_held(8, "e");
  write_held(7, "f");
  queue_.settle_some({.up_to = 7, .error = {}}, Instant::max());
  queue_.settle_some({.up_to = 8, .error = "no"}, Instant::max());
  EXPECT_EQ(sendable(), "a-no\r\ncd-no\r\nf");
  EXPECT_TRUE(queue_.empty());
}

// Such as that of CLOSE, which says how many jobs there are.
TEST_F(SessionOutputTest, AReplyAboutTwoWritesWaitsForBothAndFailsWithEither) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const auto& [earlier, later] : {std::pair("", ""), {"no", ""}, {"", "no"}, {"no", "no"}}) {
    write_held(2, "a", 1);
    queue_.settle_some({.up_to = 1, .error = earlier}, Instant::max());
    EXPECT_EQ(sendable(), "");
    queue_.settle_some({.up_to = 2, .error = later}, Instant::max());
    EXPECT_EQ(sendable(), (std::string(earlier) + later).empty() ? "a" : "-no\r\n");
    EXPECT_FALSE(output_.is_held());
    output_.sendable().clear();
  }
  EXPECT_EQ(errors_, 3u);
}

TEST_F(SessionOutputTest, RepliesAboutOneWriteDoNotJoinThoseAboutTwo) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(2, "a", 1);
  write_held(2, "b");
  write_held(2, "c", 1);
  queue_.settle_some({.up_to = 1, .error = "no"}, Instant::max());
  queue_.settle_some({.up_to = 2, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "-no\r\nb-no\r\n");
}

TEST_F(SessionOutputTest, AFailedWriteReplacesTheRepliesThatReportItAndNoOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  write("b");
  write_held(1, "c");
  write_held(2, "d");
  queue_.settle_some({.up_to = 1, .error = "no"}, Instant::max());
  EXPECT_EQ(sendable(), "-no\r\nb-no\r\n");
  EXPECT_EQ(errors_, 2u);
  queue_.settle_some({.up_to = 2, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "-no\r\nb-no\r\nd");
}

TEST_F(SessionOutputTest, AClearedOutputIsNotCalledBack) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  write_held(2, "b");
  write_held(2, "c", 1);
  output_.take_all();
  EXPECT_TRUE(queue_.empty());
  queue_.settle_some({.up_to = 2, .error = "no"}, Instant::max());
  EXPECT_EQ(errors_, 0u);
  EXPECT_TRUE(output_.empty());
}

TEST_F(SessionOutputTest, AWholeReplyWithoutAWriteIsSentAtItsEndAndNotBefore) {
  write("a");
  output_.begin_whole();
  write("b");
  EXPECT_EQ(sendable(), "a");
  output_.end_whole();
  EXPECT_EQ(sendable(), "ab");
  EXPECT_FALSE(output_.is_held());
}

TEST_F(SessionOutputTest, AWholeReplyWaitsForAllOfItsPartsAndRepliesAfterItWaitToo) {
  const ThreadRoleScope io_thread(kIoThread);
  output_.begin_whole();
  write("[");
  write_held(1, "a");
  write("b");
  write_held(2, "c");
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());  // before its end
  EXPECT_EQ(sendable(), "");
  output_.end_whole();
  write("d");
  write_held(3, "e");
  EXPECT_EQ(sendable(), "");
  queue_.settle_some({.up_to = 2, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "[abcd");
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "[abcde");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(SessionOutputTest, AllPartsOfAWholeReplyMaySettleBeforeItsEnd) {
  const ThreadRoleScope io_thread(kIoThread);
  output_.begin_whole();
  write("[");
  write_held(1, "a");
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  write("b");
  EXPECT_EQ(sendable(), "");
  output_.end_whole();
  EXPECT_EQ(sendable(), "[ab");
}

TEST_F(SessionOutputTest, AFailedPartOfAWholeReplyIsAnErrorAndTheOthersAreNot) {
  const ThreadRoleScope io_thread(kIoThread);
  output_.begin_whole();
  write("[");
  write_held(1, "a");
  write_held(2, "b");
  write_held(2, "c");
  write_held(3, "d");
  output_.end_whole();
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  queue_.settle_some({.up_to = 2, .error = "no"}, Instant::max());
  EXPECT_EQ(sendable(), "");
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "[a-no\r\n-no\r\nd");
  EXPECT_EQ(errors_, 2u);
}

TEST_F(SessionOutputTest, PartsOfAWholeReplyHaveTheOutcomesOfTheirWrites) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(6, "a");
  output_.begin_whole();
  write("[");
  write_held(6, "b");
  write_held(5, "c");
  write("d");
  queue_.settle_some({.up_to = 5, .error = "no"}, Instant::max());
  write_held(7, "e");
  output_.end_whole();
  write("f");
  queue_.settle_some({.up_to = 6, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a");
  queue_.settle_some({.up_to = 7, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a[b-no\r\ndef");
  EXPECT_FALSE(output_.is_held());
}

TEST_F(SessionOutputTest, WholeRepliesFollowOneAnotherAndWhatWasHeldBeforeThem) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(2, "a");
  for (const Ticket ticket : {Ticket{1}, Ticket{3}, Ticket{0}, Ticket{4}}) {
    output_.begin_whole();
    write("[");
    if (ticket != 0) write_held(ticket, "x");
    write("]");
    output_.end_whole();
  }
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "");
  queue_.settle_some({.up_to = 2, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a[x]");
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a[x][x][]");
  queue_.settle_some({.up_to = 4, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a[x][x][][x]");
  EXPECT_FALSE(output_.is_held());
}

// Else a client whose earlier replies are sent while its EXEC waits for a command would be told
// that EXEC's are too many.
TEST_F(SessionOutputTest, AWholeReplyHasTheBytesOfItsPartsAndNoOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  EXPECT_EQ(output_.whole_bytes(), 0u);
  write_held(1, "earlier");
  output_.begin_whole();
  write("[");
  EXPECT_EQ(output_.whole_bytes(), 1u);
  write_held(2, "ab");
  write("c");
  EXPECT_EQ(output_.whole_bytes(), 4u);
  queue_.settle_some({.up_to = 2, .error = {}}, Instant::max());
  output_.sendable().consume(output_.sendable().size());
  EXPECT_EQ(output_.whole_bytes(), 4u);
  output_.messages().append("message");
  EXPECT_EQ(output_.whole_bytes(), 4u);
  output_.end_whole();
  EXPECT_EQ(output_.whole_bytes(), 0u);
}

TEST_F(SessionOutputTest, AMessageIsNotInsideAWholeReply) {
  output_.begin_whole();
  write("[");
  output_.messages().append("message ");
  write("]");
  output_.end_whole();
  EXPECT_EQ(sendable(), "message []");
}

TEST_F(SessionOutputTest, AMessagePassesHeldRepliesButNoneThatItFollows) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  write("b");
  output_.messages().append("m1");
  EXPECT_EQ(sendable(), "m1");
  output_.messages_follow();
  write_held(2, "c");
  output_.messages().append("m2");
  write_held(3, "d");
  EXPECT_EQ(sendable(), "m1");
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "m1abm2");
  output_.messages().append("m3");
  EXPECT_EQ(sendable(), "m1abm2m3");
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "m1abm2m3cd");
}

TEST_F(SessionOutputTest, ItsSizeCountsMessagesBetweenHeldReplies) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  output_.messages_follow();
  write_held(2, "bb");
  write_held(3, "ccc");
  EXPECT_EQ(output_.size(), 6U);
  output_.messages().append("mm");
  EXPECT_EQ(output_.size(), 8U);
  output_.messages().append("m");
  write_held(4, "d");
  EXPECT_EQ(output_.size(), 10U);
  output_.messages().append("m");
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "ammmm");
  EXPECT_EQ(output_.size(), 11U);
  queue_.settle_some({.up_to = 2, .error = "no"}, Instant::max());
  EXPECT_EQ(sendable(), "ammmm-no\r\n");
  output_.messages_follow();
  output_.messages().append("last");  // the last reply grows
  EXPECT_EQ(output_.size(), sendable().size() + 8);
  output_.take_all();
  EXPECT_EQ(output_.size(), 0U);
}

TEST_F(SessionOutputTest, AMessageFollowsTheErrorsOfFailedWrites) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  output_.messages_follow();
  output_.messages().append("m");
  write("b");
  queue_.settle_some({.up_to = 1, .error = "no"}, Instant::max());
  EXPECT_EQ(sendable(), "-no\r\nmb");
}

TEST_F(SessionOutputTest, AMessageFollowsAWholeReplyAndComesBeforeTheNext) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  output_.begin_whole();
  write_held(2, "[");
  write_held(3, "]");
  output_.end_whole();
  output_.messages_follow();
  output_.begin_whole();
  write_held(4, "{");
  output_.messages().append("m1");
  write("}");
  output_.end_whole();
  for (const Ticket ticket : {Ticket{1}, Ticket{2}}) {
    queue_.settle_some({.up_to = ticket, .error = {}}, Instant::max());
    output_.messages().append("m" + std::to_string(ticket + 1));
    EXPECT_EQ(sendable(), "a");
  }
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a[]m1m2m3");
  queue_.settle_some({.up_to = 4, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a[]m1m2m3{}");
}

TEST_F(SessionOutputTest, MessagesFollowNothingOfAnOutputThatWasCleared) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  output_.messages_follow();
  output_.take_all();
  output_.messages().append("m");
  EXPECT_EQ(sendable(), "m");
}

TEST_F(SessionOutputTest, AClearedOutputMayEndAWholeReply) {
  const ThreadRoleScope io_thread(kIoThread);
  output_.begin_whole();
  write_held(1, "a");
  output_.take_all();
  output_.end_whole();
  EXPECT_TRUE(queue_.empty());
  EXPECT_TRUE(output_.empty());
}

// One client may pipeline a hundred thousand writes that become one group of the store.
TEST_F(SessionOutputTest, VeryManyRepliesOfAFailedWriteBecomeErrorsAFewAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::size_t kMany = 10 * SessionOutput::kMostMarked;
  std::string expected;
  for (std::size_t i = 0; i < kMany; ++i) {
    write_held(1, "a");
    write("b");
    expected += "-no\r\nb";
  }
  std::size_t most = 0;
  bool is_done = false;
  while (!is_done) {
    const std::size_t before = errors_;
    is_done = queue_.settle_some({.up_to = 1, .error = "no"}, Instant{});
    most = std::max(most, errors_ - before);
    EXPECT_EQ(output_.size(), 2 * kMany + 4 * errors_) << "each error has four bytes more than a reply";
  }
  EXPECT_LE(most, SessionOutput::kMostMarked);
  EXPECT_EQ(errors_, kMany);
  EXPECT_EQ(sendable(), expected);
}

TEST_F(SessionOutputTest, ALargeReplyAfterAFailedWriteIsNotCopied) {
  const ThreadRoleScope io_thread(kIoThread);
  const std::string large(std::size_t{1} << 20, 'x');
  const auto end_of = [](const proto::OutputBuffer& buffer) {
    std::array<std::string_view, 16> views;
    const std::string_view last = views.at(buffer.gather(views) - 1);
    return last.data() + last.size();
  };
  write_held(1, "a");
  write(large);
  const char* const end = end_of(output_.end());
  write_held(1, "b");
  write("c");
  queue_.settle_some({.up_to = 1, .error = "no"}, Instant{});
  EXPECT_EQ(output_.sendable().size(), large.size() + 5);
  EXPECT_EQ(end_of(output_.sendable()), end);
  queue_.settle_some({.up_to = 1, .error = "no"}, Instant{});
  EXPECT_EQ(sendable(), "-no\r\n" + large + "-no\r\nc");
}

}  // namespace
}  // namespace locksley::daemon
