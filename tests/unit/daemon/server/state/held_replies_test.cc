// The queue of the replies that wait for the store.
#include "daemon/server/state/held_replies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace locksley::daemon {
namespace {

TEST(HeldRepliesTest, AnOutcomeCallsBackInTheOrderOfTheTickets) {
  const ThreadRoleScope io_thread(kIoThread);
  HeldReplies queue;
  std::vector<std::string> called;
  for (const Ticket ticket : {Ticket{3}, Ticket{1}, Ticket{2}, Ticket{1}}) {
    queue.hold(ticket, [&called, ticket](const std::string& error) {
      called.push_back(std::to_string(ticket) + error);
    });
  }
  queue.settle_some({.up_to = 2, .error = "!"}, Instant::max());
  EXPECT_EQ(called, (std::vector<std::string>{"1!", "1!", "2!"}));
  EXPECT_FALSE(queue.empty());
}

TEST(HeldRepliesTest, AnOutcomeOfManyRepliesIsActedOnAFewAtATimeAndInOrder) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr int kMany = 1000;
  HeldReplies queue;
  std::vector<int> called;
  for (int i = 0; i < kMany; ++i) {
    queue.hold(Ticket{1}, [&called, i](const std::string& error) {
      EXPECT_EQ(error, "!");
      called.push_back(i);
    });
  }
  std::size_t largest = 0;
  bool is_done = false;
  while (!is_done) {
    const std::size_t before = called.size();
    is_done = queue.settle_some({.up_to = 1, .error = "!"}, Instant{});
    largest = std::max(largest, called.size() - before);
  }
  EXPECT_LE(largest, 64U);
  EXPECT_EQ(called.size(), std::size_t{kMany});
  EXPECT_TRUE(std::ranges::is_sorted(called));
}

TEST(HeldRepliesTest, ACallbackMayHoldAnotherReply) {
  const ThreadRoleScope io_thread(kIoThread);
  HeldReplies queue;
  int called = 0;
  queue.hold(1, [&](const std::string&) {
    kIoThread.assert_held();
    queue.hold(2, [&](const std::string&) { ++called; });
  });
  queue.settle_some({.up_to = 1, .error = {}}, Instant::max());
  EXPECT_EQ(called, 0);
  queue.settle_some({.up_to = 2, .error = {}}, Instant::max());
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace locksley::daemon
