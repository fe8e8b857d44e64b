// The end of a job's standard error, and the memory of many of them.
#include "core/lane/job_log.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>

namespace locksley {
namespace {

constexpr std::size_t kBlock = LogBudget::kBlockBytes;

constexpr std::size_t kPeriod = 23;

// `size` bytes of one endless text, from the byte `from` on. Cut from a piece of it: made byte by byte without the optimiser, the texts
// of these tests would take most of the time of all tests of leases.
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

TEST(JobLogTest, TogetherTheyHaveNoMoreThanTheBudget) {
  LogBudget budget(100 * kBlock);
  ResultAccount account;
  {
    std::deque<JobLog> logs(1000);
    std::uint64_t end = 0;
    for (int round = 0; round < 40; ++round) {
      for (JobLog& log : logs) log.add(pattern(end, 1000), &budget, &account);
      end += 1000;
      ASSERT_LE(budget.bytes(), 100 * kBlock);
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

}  // namespace
}  // namespace locksley
