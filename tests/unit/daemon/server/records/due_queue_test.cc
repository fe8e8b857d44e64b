// What is due next, and whose turn it is.
#include "daemon/server/records/due_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace locksley::daemon {
namespace {

class DueQueueTest : public ::testing::Test {
 protected:
  static Instant at(int seconds) { return Instant(std::chrono::seconds(seconds)); }
  void add(int seconds, std::uint64_t sequence, std::uint32_t tenant) {
    queue_.add({at(seconds), sequence, Due::kDeadline, tenant});
  }
  // Takes all that is due at `seconds`.
  std::vector<std::uint64_t> take(int seconds) {
    std::vector<std::uint64_t> sequences;
    while (const auto item = queue_.next_due(at(seconds))) {
      sequences.push_back(item->sequence);
      queue_.remove(*item);
    }
    return sequences;
  }

  DueQueue queue_;
};

TEST_F(DueQueueTest, OfOneTenantTheEarliestIsFirst) {
  EXPECT_EQ(queue_.earliest(), Instant::max());
  add(3, 1, 0);
  add(1, 2, 0);
  add(2, 3, 0);
  EXPECT_EQ(queue_.earliest(), at(1));
  EXPECT_EQ(take(2), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(queue_.earliest(), at(3));
  EXPECT_EQ(take(3), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(queue_.earliest(), Instant::max());
}

TEST_F(DueQueueTest, TenantsTakeTurns) {
  for (std::uint64_t i = 0; i < 100; ++i) add(1, i, 7);
  add(2, 1000, 9);
  add(2, 1001, 9);
  add(5, 1002, 3);
  const std::vector<std::uint64_t> taken = take(2);
  ASSERT_EQ(taken.size(), 102U);
  EXPECT_EQ((std::vector(taken.begin(), taken.begin() + 5)),
            (std::vector<std::uint64_t>{0, 1000, 1, 1001, 2}));
  EXPECT_EQ(queue_.earliest(), at(5));
}

TEST_F(DueQueueTest, WhatIsRemovedIsNotDue) {
  add(1, 1, 0);
  add(2, 2, 0);
  add(3, 3, 1);
  queue_.remove({at(1), 1, Due::kDeadline, 0});
  EXPECT_EQ(queue_.earliest(), at(2));
  queue_.remove({at(2), 2, Due::kDeadline, 0});
  EXPECT_EQ(queue_.earliest(), at(3));
  EXPECT_EQ(take(3), (std::vector<std::uint64_t>{3}));
}

}  // namespace
}  // namespace locksley::daemon
