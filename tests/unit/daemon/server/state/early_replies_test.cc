// Replies that the store's writer sends itself.
#include "daemon/server/state/early_replies.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/session/output/session_output.h"

namespace locksley::daemon {
namespace {

// A connection, and the test's end of it.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0); }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int socket() const { return ends_[0]; }
  // What has come.
  std::string read() {
    std::array<char, 4096> space;
    const ssize_t got = ::recv(ends_[1], space.data(), space.size(), MSG_DONTWAIT);
    return {space.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  }
  // The kernel takes nothing more until the test reads.
  void fill() {
    const std::string bytes(64 * 1024, 'x');
    while (::send(socket(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    while (::send(socket(), bytes.data(), 1, MSG_DONTWAIT) > 0) {
    }
  }
  void hang_up() { ::shutdown(ends_[1], SHUT_RDWR); }

 private:
  std::array<int, 2> ends_{};
};

class EarlyRepliesTest : public ::testing::Test {
 protected:
  void write_held(Ticket ticket, std::string_view text) LOCKSLEY_REQUIRES(kIoThread) {
    output_.hold(ticket);
    const std::size_t begin = output_.end().size();
    output_.end().append(text);
    output_.mark(begin, output_.end().size());
  }
  void send(Ticket ticket) {
    const ThreadRoleScope writer(kStoreWriter);
    queue_.early().send(ticket);
  }
  std::string sendable() const { return output_.sendable().to_string(); }

  Pipe pipe_;
  HeldReplies queue_;
  std::size_t sent_ = 0;
  SessionOutput output_{queue_, [this](SessionOutput::HeldNumber held, const std::string& error) {
                          sent_ += output_.take_back_early();
                          output_.release(held, error, proto::Protocol::kResp2);
                        }};
};

TEST_F(EarlyRepliesTest, TheWriterSendsWhatItsGroupReleasesAndTheRestIsSentAfterwards) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(3, "a");
  output_.offer_early(pipe_.socket());
  output_.end().append("b");
  send(2);
  EXPECT_EQ(pipe_.read(), "");
  send(3);
  EXPECT_EQ(pipe_.read(), "a");
  EXPECT_EQ(sendable(), "");
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "b");
  EXPECT_EQ(sent_, 1u);
  EXPECT_FALSE(output_.is_held());
}

TEST_F(EarlyRepliesTest, AReplyOfAGroupThatFailedIsNotSentWithALaterGroup) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(3, "a");
  output_.offer_early(pipe_.socket());
  send(4);
  EXPECT_EQ(pipe_.read(), "");
  queue_.settle_some({.up_to = 3, .error = "no"}, Instant::max());
  EXPECT_EQ(sendable(), "-no\r\n");
}

TEST_F(EarlyRepliesTest, NothingIsOfferedThatHasSomethingBeforeItOrIsNotTheOnlyOne) {
  const ThreadRoleScope io_thread(kIoThread);
  output_.sendable().append("before");
  write_held(1, "a");
  output_.offer_early(pipe_.socket());
  output_.sendable().clear();
  write_held(2, "b");
  output_.offer_early(pipe_.socket());
  send(1);
  send(2);
  EXPECT_EQ(pipe_.read(), "");
  output_.take_all();
  output_.begin_whole();
  output_.end().append("[");
  output_.offer_early(pipe_.socket());
  write_held(3, "c");
  output_.offer_early(pipe_.socket());
  send(3);
  EXPECT_EQ(pipe_.read(), "");
}

// The earlier write may have been refused, which the writer does not know of the reply.
TEST_F(EarlyRepliesTest, AReplyThatWaitsForTwoWritesIsNotOffered) {
  const ThreadRoleScope io_thread(kIoThread);
  output_.hold(3, 2);
  output_.end().append("a");
  output_.mark(0, 1);
  output_.offer_early(pipe_.socket());
  send(3);
  EXPECT_EQ(pipe_.read(), "");
  queue_.settle_some({.up_to = 2, .error = "no"}, Instant::max());
  queue_.settle_some({.up_to = 3, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "-no\r\n");
}

TEST_F(EarlyRepliesTest, WhatIsTakenBackIsNotSent) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  output_.offer_early(pipe_.socket());
  EXPECT_EQ(output_.take_back_early(), 0u);
  send(1);
  EXPECT_EQ(pipe_.read(), "");
  output_.offer_early(pipe_.socket());
  output_.take_all();
  send(1);
  EXPECT_EQ(pipe_.read(), "");
}

TEST_F(EarlyRepliesTest, AMessageComesAfterAReplyThatWasSentAndBeforeOneThatWasNot) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, "a");
  output_.offer_early(pipe_.socket());
  output_.sendable().append("message");
  EXPECT_EQ(output_.take_back_early(), 0u);
  EXPECT_EQ(sendable(), "message");
  output_.sendable().clear();
  output_.offer_early(pipe_.socket());
  send(1);
  output_.sendable().append("message");
  EXPECT_EQ(output_.take_back_early(), 1u);
  EXPECT_EQ(pipe_.read(), "a");
  EXPECT_EQ(sendable(), "message");
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "message");
}

TEST_F(EarlyRepliesTest, APeerThatReadsNothingOrHasGoneLeavesItsReplyToTheIoThread) {
  const ThreadRoleScope io_thread(kIoThread);
  pipe_.fill();
  write_held(1, "a");
  output_.offer_early(pipe_.socket());
  send(1);
  queue_.settle_some({.up_to = 1, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "a");
  output_.sendable().clear();
  pipe_.hang_up();
  write_held(2, "b");
  output_.offer_early(pipe_.socket());
  send(2);
  queue_.settle_some({.up_to = 2, .error = {}}, Instant::max());
  EXPECT_EQ(sendable(), "b");
  EXPECT_EQ(sent_, 0u);
}

TEST_F(EarlyRepliesTest, ALongReplyIsLeftToTheIoThread) {
  const ThreadRoleScope io_thread(kIoThread);
  write_held(1, std::string(EarlyReplies::kMostBytes + 1, 'a'));
  output_.offer_early(pipe_.socket());
  send(1);
  EXPECT_EQ(pipe_.read(), "");
}

// Run under ThreadSanitizer.
TEST(EarlyRepliesRaceTest, AReplyIsSentOnceWhoeverComesFirst) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr Ticket kRounds = 2000;
  EarlyReplies early;
  Pipe pipe;
  proto::OutputBuffer reply;
  reply.append("a");
  std::atomic<Ticket> put{0};
  std::jthread writer([&] {
    const ThreadRoleScope role(kStoreWriter);
    for (Ticket ticket = 1; ticket <= kRounds; ++ticket) {
      while (put < ticket) std::this_thread::yield();
      early.send(ticket);
    }
  });
  for (Ticket ticket = 1; ticket <= kRounds; ++ticket) {
    const auto place = early.offer(ticket, pipe.socket(), reply);
    ASSERT_TRUE(place);
    put = ticket;
    if (ticket % 2 == 0) std::this_thread::yield();
    const std::size_t sent = early.take_back(*place);
    EXPECT_EQ(pipe.read().size(), sent);
  }
}

}  // namespace
}  // namespace locksley::daemon
