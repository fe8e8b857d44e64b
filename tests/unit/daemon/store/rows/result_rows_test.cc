// Results as the store has them: read from any row on, and bytes that are no results.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/batch/result_log.h"
#include "daemon/store/rows/rows.h"
#include "tests/support/store_model.h"
#include "tests/support/store_rows.h"

namespace locksley::daemon {
namespace {

using testing::append_rows;
using testing::Bounded;
using testing::kLargest;
using testing::RandomRows;
using testing::StoredRow;
using testing::Visit;
using testing::visit;

std::vector<StoredRow> part(const std::vector<StoredRow>& rows, std::size_t skip, std::size_t most) {
  const std::size_t begin = std::min(skip, rows.size());
  const std::size_t count = std::min(most, rows.size() - begin);
  return {rows.begin() + static_cast<std::ptrdiff_t>(begin),
          rows.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

TEST(StoreResultRowsTest, ResultsAreReadFromAnyRowOnAndAsManyAsAreWanted) {
  RandomRows values(4);
  for (int i = 0; i < 30; ++i) {
    ResultLog log;
    append_rows(log, values.rows());  // so that the slice does not begin at the chunk's first byte
    const std::vector<StoredRow> rows = values.rows();
    const Bounded bytes(encode(append_rows(log, rows)));
    for (std::size_t skip = 0; skip <= rows.size() + 1; ++skip) {
      for (std::size_t most :
           {std::size_t{0}, std::size_t{1}, std::size_t{2}, rows.size(), std::size_t{100}}) {
        const Visit read = visit(bytes, skip, most);
        ASSERT_TRUE(read.visited.has_value());
        EXPECT_EQ(read.rows, part(rows, skip, most)) << "from " << skip << ", " << most;
        EXPECT_EQ(read.visited->consumed, read.rows.size());
        EXPECT_EQ(read.visited->rows, rows.size());
      }
    }
  }
}

TEST(StoreResultRowsTest, ARunIsReadFromAnyRowOnAndAsManyAsAreWanted) {
  ResultLog log;
  const std::string bytes = encode(log.append_runs(std::array{IndexRange{kLargest - 5, kLargest}},
                                                   JobStatus::kCancelled, "by the operator"));
  std::vector<StoredRow> rows;
  for (std::uint64_t i = 0; i < 5; ++i)
    rows.push_back({kLargest - 5 + i, JobStatus::kCancelled, "by the operator"});
  for (std::size_t skip = 0; skip <= 6; ++skip) {
    for (std::size_t most = 0; most <= 6; ++most) {
      const Visit read = visit(bytes, skip, most);
      ASSERT_TRUE(read.visited.has_value());
      EXPECT_EQ(read.rows, part(rows, skip, most)) << "from " << skip << ", " << most;
      EXPECT_EQ(read.visited->consumed, read.rows.size());
      EXPECT_EQ(read.visited->rows, 5U);
    }
  }
}

TEST(StoreResultRowsTest, RunsAreReadFromAnyRowOnAndAsManyAsAreWanted) {
  ResultLog log;
  const std::vector<IndexRange> runs{{10, 12}, {kLargest - 3, kLargest - 2}, {30, 33}};
  const Bounded bytes(encode(log.append_runs(runs, JobStatus::kCancelled, "why")));
  std::vector<StoredRow> rows;
  for (const std::uint64_t index : {std::uint64_t{10}, std::uint64_t{11}, kLargest - 3, std::uint64_t{30},
                                    std::uint64_t{31}, std::uint64_t{32}}) {
    rows.push_back({index, JobStatus::kCancelled, "why"});
  }
  for (std::size_t skip = 0; skip <= 7; ++skip) {
    for (std::size_t most = 0; most <= 7; ++most) {
      const Visit read = visit(bytes, skip, most);
      ASSERT_TRUE(read.visited.has_value());
      EXPECT_EQ(read.rows, part(rows, skip, most)) << "from " << skip << ", " << most;
      EXPECT_EQ(read.visited->rows, 6U);
    }
  }
}

TEST(StoreResultRowsTest, ResultsSayHowManyBytesLieBeforeThem) {
  ResultLog log;
  const std::string first = encode(append_rows(log, {{0, JobStatus::kOk, "a"}, {1, JobStatus::kOk, "b"}}));
  const std::uint64_t before = log.appended_bytes();
  const std::string second = encode(append_rows(log, {{2, JobStatus::kOk, "c"}}));
  const std::uint64_t before_run = log.appended_bytes();
  const std::string run = encode(log.append_runs(std::array{IndexRange{3, 5}}, JobStatus::kCancelled, ""));
  EXPECT_EQ(bytes_before(first), 0U);
  EXPECT_EQ(bytes_before(second), before);
  EXPECT_EQ(bytes_before(run), before_run);
  EXPECT_EQ(bytes_before(""), 0U);
}

TEST(StoreResultRowsTest, ARowThatTheVisitorRefusesIsNotConsumed) {
  ResultLog log;
  const std::string rows = encode(append_rows(log, {{0, JobStatus::kOk, "a"}, {1, JobStatus::kOk, "b"}}));
  const std::string run = encode(log.append_runs(std::array{IndexRange{2, 4}}, JobStatus::kCancelled, ""));
  for (const std::string& bytes : {rows, run}) {
    const Visit read = visit(bytes, 0, 10, 1);
    ASSERT_TRUE(read.visited.has_value());
    EXPECT_EQ(read.visited->consumed, 1U);
    EXPECT_EQ(read.visited->rows, 2U);
  }
}

TEST(StoreResultRowsTest, TruncatedResultsAreRefused) {
  RandomRows values(7);
  for (int i = 0; i < 10; ++i) {
    ResultLog log;
    const std::string rows = encode(append_rows(log, values.rows()));
    const std::uint64_t first = values.number();
    const std::string run =
        encode(log.append_runs(std::array{IndexRange{first, first + 3}}, values.status(), "reason"));
    for (const std::string& whole : {rows, run}) {
      for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 500) {
        EXPECT_FALSE(
            visit(Bounded(std::string_view(whole).substr(0, size)), 0, kLargest).visited.has_value());
      }
    }
  }
}

}  // namespace
}  // namespace locksley::daemon
