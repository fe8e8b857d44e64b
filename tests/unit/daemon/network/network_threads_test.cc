// Connections whose sockets network threads have: bytes both ways, ends, errors, and who closes
// what.
#include "daemon/network/network_threads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <atomic>
#include <cstddef>
#include <semaphore>
#include <string>
#include <string_view>

#include "daemon/network/relay_buffer.h"
#include "tests/unit/daemon/network/network_threads_fixture.h"

namespace locksley::daemon {
namespace {

TEST_F(NetworkThreadsTest, BytesGoBothWays) {
  kIoThread.assert_held();
  take_over();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(peer_says("PING"), 4U);
    ASSERT_EQ(receive(4), "PING");
    send_all("+PONG");
    ASSERT_EQ(peer_hears(5), "+PONG");
  }
}

TEST_F(NetworkThreadsTest, AReplyDoesNotWaitForWhatTheIoThreadHasQueued) {
  kIoThread.assert_held();
  take_over();
  bool has_run = false;
  asio::post(io_, [&] { has_run = true; });
  send_all("+PONG");
  pollfd entry{.fd = peer(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "a reply waits for another round of the I/O thread";
  EXPECT_FALSE(has_run);
  EXPECT_EQ(peer_hears(5), "+PONG");
}

// Holds a network thread where it asks whether it may look for work, which it does while it is
// awake.
class Gate {
 public:
  bool pass() {
    if (!is_open_) {
      is_reached_.release();
      opened_.acquire();
    }
    return false;
  }
  void wait_until_reached() { is_reached_.acquire(); }
  void open() {
    is_open_ = true;
    opened_.release();
  }

 private:
  std::atomic<bool> is_open_{false};  // the test writes, the network thread reads
  std::binary_semaphore is_reached_{0};
  std::binary_semaphore opened_{0};
};

TEST_F(NetworkThreadsTest, AThreadIsWokenOnlyWhileItIsAsleep) {
  kIoThread.assert_held();
  Gate gate;
  NetworkThreads network(io_.get_executor(), 1, [&] { return gate.pass(); });
  ASSERT_TRUE(network.start().has_value());
  const OwnedCounter& wakeups = network.threads()[0]->stats().wakeups;
  gate.wait_until_reached();
  end_ = network.take_over(sockets_[0], nullptr, owner_);
  for (const std::string_view text : {"one ", "two ", "three"}) send_all(text);
  EXPECT_EQ(wakeups.get(), 0U);
  gate.open();
  EXPECT_EQ(peer_hears(13), "one two three") << "it takes all that it was given while it was awake";
  // It sleeps after a reply, sooner or later.
  wait_for([&] {
    kIoThread.assert_held();
    send_all("x");
    EXPECT_EQ(peer_hears(1), "x");
    return wakeups.get() != 0;
  });
  end_.reset();
  network.stop();
}

TEST_F(NetworkThreadsTest, WhatCameBeforeTheHandOverIsThere) {
  kIoThread.assert_held();
  ASSERT_EQ(peer_says("early"), 5U);
  ASSERT_EQ(::shutdown(peer(), SHUT_WR), 0);
  take_over();
  EXPECT_EQ(receive(100), "early");
  EXPECT_TRUE(is_end_);
}

TEST_F(NetworkThreadsTest, APeerThatIsNotReadIsHeldBackAndLosesNothing) {
  kIoThread.assert_held();
  take_over();
  const std::string text = numbers(4 << 20);
  // Until the buffers of the relay and of the sockets are full: no byte more is taken for a while.
  std::size_t said = 0;
  int idle = 0;
  wait_for([&] {
    const std::size_t more = peer_says(std::string_view(text).substr(said, 1 << 16));
    said += more;
    idle = more == 0 ? idle + 1 : 0;
    return idle == 50 || said == text.size();
  });
  ASSERT_LT(said, text.size()) << "a peer that is not read was never held back";
  ASSERT_GE(said, RelayBuffer::kLarge);
  const std::string heard = receive(said);
  EXPECT_TRUE(heard == std::string_view(text).substr(0, said));
}

TEST_F(NetworkThreadsTest, WhatThePeerDoesNotReadIsBoundedAndGoesOutInOrder) {
  kIoThread.assert_held();
  take_over();
  const std::string text = numbers(4 << 20);
  std::size_t sent = 0;
  int idle = 0;
  wait_for([&] {
    kIoThread.assert_held();
    const std::size_t more = send(std::string_view(text).substr(sent, 1 << 16)).value();
    sent += more;
    idle = more == 0 ? idle + 1 : 0;
    return idle == 50 || sent == text.size();
  });
  ASSERT_LT(sent, text.size()) << "a peer that reads nothing was sent all";
  ASSERT_FALSE(end_->is_sent());
  const int calls = owner_.calls;
  end_->await_room();
  const std::string heard = peer_hears(sent);
  EXPECT_TRUE(heard == std::string_view(text).substr(0, sent));
  // For the room, and for all that is sent.
  wait_for([&] { return owner_.calls == calls + 2; });
  EXPECT_TRUE(end_->is_sent());
}

TEST_F(NetworkThreadsTest, WhatIsSentAfterTheQuestionIsPartOfIt) {
  kIoThread.assert_held();
  take_over();
  send_all("one");
  EXPECT_FALSE(end_->is_sent());
  send_all("two");
  wait_for([&] {
    kIoThread.assert_held();
    return end_->is_sent();
  });
  std::array<char, 16> space;
  EXPECT_EQ(::recv(peer(), space.data(), space.size(), 0), 6) << "it is with the kernel";
}

TEST_F(NetworkThreadsTest, TheEndFollowsTheOutputAndTheOtherWayStaysOpen) {
  kIoThread.assert_held();
  take_over();
  const std::string text = numbers(RelayBuffer::kLarge);
  send_all(text);
  end_->shut();
  EXPECT_TRUE(peer_hears(text.size() + 1) == text);
  ASSERT_EQ(peer_says("late"), 4U);
  EXPECT_EQ(receive(4), "late");
}

TEST_F(NetworkThreadsTest, ClosingClosesTheSocket) {
  kIoThread.assert_held();
  take_over();
  EXPECT_EQ(network_.threads()[0]->stats().connections.get(), 1U);
  send_all("bye");
  end_.reset();
  EXPECT_EQ(network_.threads()[0]->stats().connections.get(), 0U);
  EXPECT_EQ(peer_hears(100), "bye");
}

TEST_F(NetworkThreadsTest, WhatTheSocketHasRoomForIsSentBeforeItCloses) {
  kIoThread.assert_held();
  take_over();
  const std::string text = numbers(4 << 20);
  std::size_t sent = 0;
  int idle = 0;
  wait_for([&] {
    kIoThread.assert_held();
    const std::size_t more = send(std::string_view(text).substr(sent)).value();
    sent += more;
    idle = more == 0 ? idle + 1 : 0;
    return idle == 50;
  });
  // All that the socket holds: it has room then for what the relay holds.
  std::string heard;
  std::array<char, 4096> space;
  for (ssize_t got = 1; got > 0;) {
    got = ::recv(peer(), space.data(), std::min(space.size(), sent - heard.size()), 0);
    if (got > 0) heard.append(space.data(), static_cast<std::size_t>(got));
  }
  end_.reset();
  heard += peer_hears(text.size());
  EXPECT_TRUE(heard == std::string_view(text).substr(0, sent));
}

TEST_F(NetworkThreadsTest, AThreadThatStopsHasDoneWhatItWasTold) {
  kIoThread.assert_held();
  take_over();
  send_all("last words");
  end_.reset();
  network_.stop();
  EXPECT_EQ(peer_hears(100), "last words");
}

TEST_F(NetworkThreadsTest, NewsOfAConnectionThatHasEndedIsForgotten) {
  kIoThread.assert_held();
  take_over();
  end_->await_input();
  ASSERT_EQ(peer_says("news"), 4U);
  // The network thread closes after it has told of the input: the order comes after that.
  end_.reset();
  EXPECT_EQ(peer_hears(100), "");
  io_.poll();
  EXPECT_EQ(owner_.calls, 0);
}

TEST_F(NetworkThreadsTest, APeerThatHasGoneEndsBothWays) {
  kIoThread.assert_held();
  take_over();
  end_->await_input();
  ASSERT_EQ(::shutdown(peer(), SHUT_RDWR), 0);
  EXPECT_EQ(receive(100), "");
  EXPECT_TRUE(is_end_);
  EXPECT_GT(owner_.calls, 0);
  wait_for([&] {
    kIoThread.assert_held();
    return !send("into the void").has_value();
  });
  // Nothing more can be sent, so closing loses nothing.
  wait_for([&] {
    kIoThread.assert_held();
    return end_->is_sent();
  });
}

TEST_F(NetworkThreadsTest, ASocketThatCannotBeWatchedHasFailed) {
  kIoThread.assert_held();
  const int file = ::open("/dev/null", O_RDWR | O_CLOEXEC);  // epoll refuses it
  ASSERT_GE(file, 0);
  end_ = network_.take_over(file, nullptr, owner_);
  EXPECT_EQ(receive(100), "");
  EXPECT_TRUE(is_end_);
  EXPECT_FALSE(send("x").has_value());
  ::close(sockets_[0]);
}

TEST_F(NetworkThreadsTest, AConnectionComesToTheThreadWithTheFewest) {
  kIoThread.assert_held();
  std::array<int, 4> more{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, more.data()), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, more.data() + 2), 0);
  take_over();
  const auto second = network_.take_over(more[0], nullptr, owner_);
  const auto third = network_.take_over(more[2], nullptr, owner_);
  const auto connections = [&](std::size_t thread) {
    return network_.threads()[thread]->stats().connections.get();
  };
  EXPECT_EQ(connections(0), 2U);
  EXPECT_EQ(connections(1), 1U);
  ::close(more[1]);
  ::close(more[3]);
}

}  // namespace
}  // namespace locksley::daemon
