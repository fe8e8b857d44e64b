// The end of a job's standard error, and the memory of many of them.
#include "core/lane/job_log.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace locksley {
namespace {

constexpr std::size_t kBlock = LogBudget::kBlockBytes;

constexpr std::size_t kPeriod = 23;

// `size` bytes of one endless text, from the byte `from` on. Cut from a piece of it: made byte by
// byte without the optimiser, the texts of these tests would take most of the time of all tests of
// leases.
std::string pattern(std::uint64_t from, std::size_t size) {
  static const std::string piece = [] {
    std::string text;
    for (std::size_t i = 0; i < 4 * JobLog::kMost; ++i) text += static_cast<char>('a' + i % kPeriod);
    return text;
  }();
  const std::size_t start = from % kPeriod;
  EXPECT_LE(start + size, piece.size());
  return piece.substr(start, size);
}

TEST(JobLogTest, HasTheLastBytesInPiecesOfAnySize) {
  std::mt19937_64 random(20261124);
  JobLog log;
  std::uint64_t end = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t size = random() % (i % 50 == 0 ? 3 * JobLog::kMost : 700);
    log.add(pattern(end, size), nullptr, nullptr);
    end += size;
    ASSERT_EQ(log.end(), end);
    const std::string kept = log.read(0);
    ASSERT_EQ(kept.size(), std::min<std::uint64_t>(end, JobLog::kMost));
    ASSERT_EQ(kept, pattern(end - kept.size(), kept.size()));
    const std::uint64_t from = end - kept.size() + random() % (kept.size() + 1);
    ASSERT_EQ(log.read(from), pattern(from, end - from));
  }
  EXPECT_EQ(log.read(end), "");
  EXPECT_EQ(log.read(end + 5), "");
}

TEST(JobLogTest, TheLastLineIsTheOneThatIsNotEmpty) {
  JobLog log;
  EXPECT_EQ(log.last_line(100), "");
  log.add("\n\n", nullptr, nullptr);
  EXPECT_EQ(log.last_line(100), "");
  log.add("first\nsecond", nullptr, nullptr);
  EXPECT_EQ(log.last_line(100), "second");
  log.add(" line \r\n\n", nullptr, nullptr);
  EXPECT_EQ(log.last_line(100), "second line");
  log.add(std::string(500, 'x') + "end\n", nullptr, nullptr);
  EXPECT_EQ(log.last_line(10), "xxxxxxxend");
}

TEST(JobLogTest, TogetherTheyHaveNoMoreThanTheirUsersShare) {
  LogBudget budget(100 * kBlock);
  ResultAccount account;
  {
    std::deque<JobLog> logs(1000);
    std::uint64_t end = 0;
    for (int round = 0; round < 40; ++round) {
      for (JobLog& log : logs) log.add(pattern(end, 1000), &budget, &account);
      end += 1000;
      ASSERT_LE(budget.bytes(), 50 * kBlock);
      ASSERT_EQ(account.bytes(), budget.bytes());
    }
    std::size_t with_some = 0;
    for (JobLog& log : logs) {
      EXPECT_EQ(log.end(), end);
      const std::string kept = log.read(0);
      EXPECT_EQ(kept, pattern(end - kept.size(), kept.size()));
      EXPECT_LE(kept.size(), 2 * kBlock) << "those that began first have not kept all of it";
      with_some += kept.empty() ? 0 : 1;
    }
    EXPECT_GE(with_some, 50U);
  }
  EXPECT_EQ(budget.bytes(), 0U);
  EXPECT_EQ(account.bytes(), 0U);
}

TEST(JobLogTest, AFullAccountStopsTheGrowthOfItsLogsAlone) {
  LogBudget budget(100 * kBlock);
  ResultAccount full, other;
  full.set_limit(2 * kBlock);
  JobLog log, neighbour;
  log.add(pattern(0, 10 * kBlock), &budget, &full);
  EXPECT_EQ(full.bytes(), 2 * kBlock);
  EXPECT_EQ(log.read(0), pattern(10 * kBlock - log.read(0).size(), log.read(0).size()));
  neighbour.add(pattern(0, 10 * kBlock), &budget, &other);
  EXPECT_EQ(neighbour.read(0), pattern(0, 10 * kBlock));
}

// A user, and the logs of its jobs.
struct Writer {
  void write(std::size_t logs_in_all, std::size_t bytes) {
    while (logs.size() < logs_in_all) logs.emplace_back();
    for (JobLog& log : logs) log.add(pattern(0, bytes), &budget, &account);
  }
  std::uint64_t blocks() const { return account.bytes() / kBlock; }

  LogBudget& budget;
  ResultAccount account = ResultAccount();
  std::deque<JobLog> logs = {};
};

TEST(LogBudgetTest, WhateverTheLogsOfOthersTakeTheNextUserFindsRoom) {
  LogBudget budget(64 * kBlock);
  Writer first{budget}, second{budget}, third{budget};
  first.write(1000, 1);
  EXPECT_EQ(first.blocks(), 32U) << "none of its logs gives a block back";
  second.write(1000, 1);
  EXPECT_EQ(second.blocks(), 16U);
  third.write(1, JobLog::kMost);
  EXPECT_EQ(third.blocks(), 6U) << "of its share, 8, which leaves some for its next log";
  third.write(2, 1);
  EXPECT_EQ(third.logs.back().read(0), pattern(0, 1));
}

TEST(LogBudgetTest, UsersThatWriteWithoutEndHaveTheSame) {
  LogBudget budget(90 * kBlock);
  Writer first{budget}, second{budget};
  for (int i = 0; i < 100; ++i) first.write(10, 1000);
  EXPECT_NEAR(static_cast<double>(first.blocks()), 45, 6) << "half; up to an eighth of it is for new logs";
  // Of the second user, which has more logs, as of the first.
  for (int i = 0; i < 100; ++i) second.write(20, 1000), first.write(10, 1000);
  EXPECT_NEAR(static_cast<double>(first.blocks()), 30, 5) << "one third, and one third is free";
  EXPECT_NEAR(static_cast<double>(second.blocks()), 30, 5);
}

TEST(LogBudgetTest, LogsWithoutAnAccountAreOneUsers) {
  LogBudget budget(64 * kBlock);
  std::deque<JobLog> logs(100);
  for (JobLog& log : logs) log.add("x", &budget, nullptr);
  EXPECT_EQ(budget.bytes(), 32 * kBlock);
}

TEST(LogBudgetTest, TheLeastBudgetIsOneLogs) {
  LogBudget budget(kBlock);
  Writer user{budget};
  user.write(2, 1);
  EXPECT_EQ(user.logs.front().read(0), pattern(0, 1));
  EXPECT_EQ(budget.bytes(), kBlock);
}

TEST(LogBudgetTest, LogsShrinkToALowerLimitAsTheyWrite) {
  LogBudget budget(200 * kBlock);
  Writer user{budget};
  user.write(8, JobLog::kMost);
  EXPECT_GT(budget.bytes(), 64 * kBlock);
  budget.set_limit(20 * kBlock);
  for (int i = 0; i < 100; ++i) user.write(8, 1000);
  EXPECT_LE(budget.bytes(), 10 * kBlock);
  for (const JobLog& log : user.logs) EXPECT_NE(log.read(0), "");
}

TEST(LogBudgetTest, ThreadsThatTakeAtOnceStayWithinTheLimit) {
  constexpr std::size_t kThreads = 4, kMost = 64;
  LogBudget budget(kMost * kBlock);
  ResultAccount users[2];
  {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&budget, &users, i] {
        ResultAccount& user = users[i % 2];
        std::mt19937_64 random(i);
        std::deque<JobLog> logs(20);
        for (int round = 0; round < 3000; ++round) {
          JobLog& log = logs[random() % logs.size()];
          if (random() % 8 == 0) log.clear();
          log.add(pattern(0, random() % (3 * kBlock)), &budget, &user);
          ASSERT_LE(budget.bytes(), kMost * kBlock);
          ASSERT_LE(user.bytes(), (kMost / 2 + kThreads) * kBlock);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(budget.bytes(), 0U);
  for (ResultAccount& user : users) {
    EXPECT_EQ(user.logs().blocks, 0U);
    EXPECT_EQ(user.logs().logs, 0U);
  }
}

}  // namespace
}  // namespace locksley
