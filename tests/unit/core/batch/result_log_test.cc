#include "core/batch/result_log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>

#include "tests/support/seed.h"

namespace locksley::result_log_test {
namespace {

struct Row {
  std::uint64_t index;
  JobStatus status;
  std::string output;
  friend bool operator==(const Row&, const Row&) = default;
};

std::vector<std::byte> encode(const std::vector<Row>& rows) {
  std::vector<std::byte> bytes;
  for (const Row& row : rows) {
    const ResultHead head{row.index, static_cast<std::uint32_t>(row.output.size()), row.status, {}};
    const std::size_t at = bytes.size();
    bytes.resize(at + ResultHead::bytes_of(row.output.size()));
    std::memcpy(bytes.data() + at, &head, sizeof head);
    std::memcpy(bytes.data() + at + sizeof head, row.output.data(), row.output.size());
  }
  return bytes;
}

void append(ResultLog& log, const std::vector<Row>& rows) {
  const auto bytes = encode(rows);
  const bool has_others =
      std::ranges::any_of(rows, [](const Row& row) { return row.status != JobStatus::kOk; });
  log.append(ResultLog::prepare({bytes, rows.size()},
                                has_others ? ResultLog::OtherRows::kPossible : ResultLog::OtherRows::kNone));
}

std::vector<Row> read(const ResultLog& log, std::uint64_t first, std::uint64_t count) {
  std::vector<Row> rows;
  ResultLog::visit(log.snapshot(first, count), first, count, [&](const ResultRow& row) {
    rows.push_back({row.index, row.status, std::string(row.output)});
    return true;
  });
  return rows;
}

TEST(ResultLogTest, GivesBackRowsInTheOrderInWhichTheyCame) {
  ResultLog log;
  append(log, {{3, JobStatus::kOk, "three"}, {1, JobStatus::kError, ""}});
  append(log, {{2, JobStatus::kOk, "2"}});
  EXPECT_THAT(read(log, 0, 10),
              ::testing::ElementsAre(Row{3, JobStatus::kOk, "three"}, Row{1, JobStatus::kError, ""},
                                     Row{2, JobStatus::kOk, "2"}));
  EXPECT_THAT(read(log, 1, 1), ::testing::ElementsAre(Row{1, JobStatus::kError, ""}));
  EXPECT_THAT(read(log, 3, 10), ::testing::IsEmpty());
  EXPECT_THAT(read(log, 99, 10), ::testing::IsEmpty());
  EXPECT_THAT(read(log, 0, 0), ::testing::IsEmpty());
}

TEST(ResultLogTest, HoldsARunOfJobsThatNeverRanInConstantMemory) {
  ResultLog log;
  append(log, {{0, JobStatus::kOk, "x"}});
  const std::uint64_t before = log.memory_bytes();
  log.append_runs(std::array{IndexRange{1, 1'000'000'000'001}}, JobStatus::kCancelled, "why");
  append(log, {{9, JobStatus::kOk, "y"}});
  EXPECT_LT(log.memory_bytes() - before, 2000u);
  EXPECT_EQ(log.rows(), 1'000'000'000'002u);
  EXPECT_THAT(read(log, 999'999'999'999, 10),
              ::testing::ElementsAre(Row{999'999'999'999, JobStatus::kCancelled, "why"},
                                     Row{1'000'000'000'000, JobStatus::kCancelled, "why"},
                                     Row{9, JobStatus::kOk, "y"}));
}

// The rows that are not ok, with their places, and where the look ended.
struct Others {
  std::vector<std::pair<std::uint64_t, Row>> rows;
  std::uint64_t end = 0;
  std::size_t segments = 0;
};
Others others(const ResultLog& log, std::uint64_t first, std::size_t most = 1000,
              std::size_t most_rows = 1000) {
  Others found;
  const ResultLog::Others in_log = log.others(first, most);
  found.segments = in_log.segments.size();
  found.end = ResultLog::visit_others(
      in_log.segments, first, in_log.end, [&](std::uint64_t place, const ResultRow& row) {
        if (found.rows.size() == most_rows) return false;
        found.rows.push_back({place, {row.index, row.status, std::string(row.output)}});
        return true;
      });
  return found;
}

TEST(ResultLogTest, FindsTheRowsThatAreNotOkWithoutALookAtChunksOfOthers) {
  const std::string large(8192, 'x');  // such a row has a chunk of its own
  ResultLog log;
  for (std::uint64_t i = 0; i < 1000; ++i) append(log, {{i, JobStatus::kOk, large}});
  append(log,
         {{1000, JobStatus::kOk, "small"}, {1001, JobStatus::kError, "bad"}, {1002, JobStatus::kOk, ""}});
  for (std::uint64_t i = 1003; i < 2000; ++i) append(log, {{i, JobStatus::kOk, large}});
  log.append_runs(std::array{IndexRange{2000, 2002}}, JobStatus::kCancelled, "why");
  const Row bad{1001, JobStatus::kError, "bad"};
  const Row first{2000, JobStatus::kCancelled, "why"};
  const Row second{2001, JobStatus::kCancelled, "why"};
  const Others all = others(log, 0);
  EXPECT_THAT(all.rows,
              ::testing::ElementsAre(std::pair{1001, bad}, std::pair{2000, first}, std::pair{2001, second}));
  EXPECT_EQ(all.segments, 2U) << "of some 2,000";
  EXPECT_EQ(all.end, 2002U);
  EXPECT_THAT(others(log, 1002).rows,
              ::testing::ElementsAre(std::pair{2000, first}, std::pair{2001, second}));
  EXPECT_THAT(others(log, 2001).rows, ::testing::ElementsAre(std::pair{2001, second}));
  EXPECT_EQ(others(log, 2002).end, 2002U);
  EXPECT_EQ(others(log, 0, 1).end, 1003U) << "it ends behind the first segment that has some";
  const Others one = others(log, 0, 1000, 1);
  EXPECT_EQ(one.rows.size(), 1U);
  EXPECT_EQ(one.end, 2000U) << "the first row that was refused";
}

TEST(ResultLogTest, ALookForOthersEndsAfterSoManySegments) {
  const std::string large(4096, 'x');
  ResultLog log;
  for (std::uint64_t i = 0; i < ResultLog::kMostPassed + 5; ++i) append(log, {{i, JobStatus::kOk, large}});
  const Others found = others(log, 0);
  EXPECT_EQ(found.end, ResultLog::kMostPassed);
  EXPECT_EQ(others(log, found.end).end, ResultLog::kMostPassed + 5);
}

TEST(ResultLogTest, ARefusedRowIsNotConsumed) {
  ResultLog log;
  append(log, {{0, JobStatus::kOk, "a"}, {1, JobStatus::kOk, "b"}});
  int visits = 0;
  EXPECT_EQ(ResultLog::visit(log.snapshot(0, 10), 0, 10, [&](const ResultRow&) { return ++visits < 2; }), 1u);
}

TEST(ResultLogTest, ASnapshotStaysAsItWasWhileTheLogGrows) {
  ResultLog log;
  append(log, {{0, JobStatus::kOk, "a"}});
  const auto segments = log.snapshot(0, 100);
  for (std::uint64_t i = 1; i < 1000; ++i) append(log, {{i, JobStatus::kOk, "more"}});
  std::vector<std::string> outputs;
  ResultLog::visit(segments, 0, 100, [&](const ResultRow& row) {
    outputs.emplace_back(row.output);
    return true;
  });
  EXPECT_THAT(outputs, ::testing::ElementsAre("a"));
}

// So that a reader that takes one needs the batch's mutex for a short time.
TEST(ResultLogTest, ASnapshotEndsAfterSoManySegments) {
  const std::string large(8192, 'x');  // such a row has a chunk of its own
  constexpr std::uint64_t kRows = ResultLog::kMostSegments + 10;
  ResultLog log;
  for (std::uint64_t i = 0; i < kRows; ++i) append(log, {{i, JobStatus::kOk, large}});
  EXPECT_EQ(log.snapshot(0, kRows, ~std::uint64_t{0}).size(), ResultLog::kMostSegments);
  const auto others = log.snapshot(ResultLog::kMostSegments, kRows, ~std::uint64_t{0});
  ASSERT_EQ(others.size(), 10U);
  EXPECT_EQ(others.front().first_row, ResultLog::kMostSegments);
}

TEST(ResultLogTest, ASnapshotEndsAfterSoManyBytesButHasTheFirstRow) {
  const std::string large(8192, 'x');
  ResultLog log;
  for (std::uint64_t i = 0; i < 20; ++i) append(log, {{i, JobStatus::kOk, large}});
  EXPECT_EQ(log.snapshot(3, 10, 0).size(), 1U);
  EXPECT_EQ(log.snapshot(3, 10, 1).size(), 2U) << "the bytes of the first chunk do not count";
  EXPECT_EQ(log.snapshot(3, 10, 4 * large.size()).size(), 5U);
  EXPECT_EQ(log.snapshot(3, 10, 100 * large.size()).size(), 10U);
}

TEST(ResultLogTest, OneSmallResultCostsLittleMemory) {
  ResultLog log;
  append(log, {{0, JobStatus::kOk, "0123456789"}});
  EXPECT_LE(log.memory_bytes(), 256u);
}

TEST(ResultLogTest, RunsAreReadFromAnyRowOn) {
  ResultLog log;
  append(log, {{0, JobStatus::kOk, "a"}});
  const std::vector<IndexRange> runs{{10, 12}, {20, 21}, {30, 33}};
  const auto slice = log.append_runs(runs, JobStatus::kCancelled, "why");
  EXPECT_EQ(slice.rows, 6u);
  EXPECT_EQ(log.rows(), 7u);
  append(log, {{1, JobStatus::kOk, "b"}});
  std::vector<Row> all{{0, JobStatus::kOk, "a"}};
  for (const std::uint64_t index : {10U, 11U, 20U, 30U, 31U, 32U})
    all.push_back({index, JobStatus::kCancelled, "why"});
  all.push_back({1, JobStatus::kOk, "b"});
  for (std::size_t first = 0; first <= all.size(); ++first) {
    for (std::size_t most = 0; most <= all.size() + 1; ++most) {
      const std::size_t count = std::min(most, all.size() - first);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      EXPECT_EQ(read(log, first, most), std::vector<Row>(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
  }
  log.drop_before(8);
  EXPECT_EQ(log.memory_bytes(), 0u);
}

TEST(ResultLogTest, DroppedRowsGiveTheirMemoryBackAndLeaveTheOthersInPlace) {
  ResultLog log;
  log.begin_at(10, 5);
  EXPECT_EQ(log.rows(), 10u);
  EXPECT_EQ(log.first_row(), 10u);
  for (std::uint64_t i = 0; i < 100; ++i) append(log, {{i, JobStatus::kOk, std::string(5000, 'x')}});
  log.append_runs(std::array{IndexRange{100, 150}}, JobStatus::kCancelled, "why");
  const std::uint64_t before = log.memory_bytes();
  log.drop_before(60);
  EXPECT_EQ(log.first_row(), 60u);
  EXPECT_LT(log.memory_bytes(), before * 6 / 10);
  EXPECT_THAT(read(log, 60, 1), ::testing::ElementsAre(Row{50, JobStatus::kOk, std::string(5000, 'x')}));
  log.drop_before(111);  // in the middle of the run, which goes whole or not at all
  EXPECT_EQ(log.first_row(), 110u);
  log.drop_before(160);
  EXPECT_EQ(log.first_row(), 160u);
  EXPECT_EQ(log.memory_bytes(), 0u);
  append(log, {{7, JobStatus::kOk, "y"}});
  EXPECT_THAT(read(log, 160, 9), ::testing::ElementsAre(Row{7, JobStatus::kOk, "y"}));
}

TEST(ResultLogTest, DiscardedRowsCountUpToTheirChunkAndAreFreedAFewChunksAtATime) {
  ResultLog log;
  for (std::uint64_t i = 0; i < 10; ++i) append(log, {{i, JobStatus::kOk, std::string(5000, 'x')}});
  const std::uint64_t row_bytes = log.appended_bytes() / 10;
  EXPECT_EQ(log.place_of(4)->first_row, 4u);
  EXPECT_EQ(log.place_of(4)->bytes_before, 4 * row_bytes);
  log.discard_before(4, *log.place_of(4));
  EXPECT_EQ(log.discarded(), 4u);
  EXPECT_EQ(log.discarded_bytes(), 4 * row_bytes);
  EXPECT_FALSE(log.drop_before(4, 3));
  EXPECT_EQ(log.first_row(), 3u);
  EXPECT_TRUE(log.drop_before(4, 3));
  EXPECT_EQ(log.first_row(), 4u);
  EXPECT_EQ(log.place_of(3), std::nullopt);
  // Small rows share a chunk, which begins with the first of them.
  for (std::uint64_t i = 10; i < 14; ++i) append(log, {{i, JobStatus::kOk, "y"}});
  log.discard_before(12, *log.place_of(12));
  EXPECT_EQ(log.discarded(), 12u);
  EXPECT_EQ(log.discarded_bytes(), 10 * row_bytes);
  // A row that does not exist yet stands for the end.
  log.discard_before(99, *log.place_of(99));
  EXPECT_EQ(log.discarded(), 14u);
  EXPECT_EQ(log.discarded_bytes(), log.appended_bytes());
  log.discard_before(3, {0, 0});
  EXPECT_EQ(log.discarded(), 14u) << "never less";
}

// What a journal keeps of a publication stays as it was, whatever is appended to its chunk or
// dropped.
TEST(ResultLogTest, WhatAppendReturnsHoldsJustTheRowsThatWereAppended) {
  ResultLog log;
  std::vector<ResultLog::Rows> appended;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto bytes = encode({{i, JobStatus::kOk, "a"}, {i + 100, JobStatus::kError, std::to_string(i)}});
    appended.push_back(log.append(ResultLog::prepare({bytes, 2})));
  }
  log.drop_before(40);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto expected = encode({{i, JobStatus::kOk, "a"}, {i + 100, JobStatus::kError, std::to_string(i)}});
    EXPECT_EQ(appended[i].first_row, 2 * i);
    EXPECT_EQ(appended[i].rows, 2u);
    ASSERT_EQ(appended[i].size_bytes, expected.size());
    EXPECT_EQ(
        std::memcmp(appended[i].chunk->bytes.get() + appended[i].offset, expected.data(), expected.size()),
        0);
  }
}

TEST(ResultLogTest, AgreesWithAVectorOverRandomPublicationsAndReads) {
  auto random = testing::stress_random(1);
  ResultLog log;
  std::vector<Row> all;
  for (int i = 0; i < 300; ++i) {
    if (random() % 10 == 0) {
      const std::uint64_t count = random() % 5;
      for (std::uint64_t j = 0; j < count; ++j) all.push_back({j + 7, JobStatus::kCancelled, "gone"});
      log.append_runs(std::array{IndexRange{7, 7 + count}}, JobStatus::kCancelled, "gone");
    } else {
      std::vector<Row> rows;
      for (std::uint64_t j = random() % 40; j > 0; --j) {
        rows.push_back(
            {random() % 1000, static_cast<JobStatus>(random() % kJobStatuses),
             std::string(random() % (random() % 20 == 0 ? 9000 : 60), static_cast<char>('a' + j % 26))});
      }
      all.insert(all.end(), rows.begin(), rows.end());
      append(log, rows);
    }
    ASSERT_EQ(log.rows(), all.size());
    if (random() % 20 == 0) log.drop_before(log.first_row() + random() % 50);
    const std::uint64_t wanted = log.first_row() + random() % (all.size() - log.first_row() + 1);
    const auto place = log.place_of(wanted);
    ASSERT_TRUE(place.has_value());
    ASSERT_LE(place->first_row, wanted);
    const std::uint64_t first = log.first_row() + random() % (all.size() - log.first_row() + 2);
    const std::uint64_t count = random() % 100;
    const auto rows = read(log, first, count);
    ASSERT_EQ(rows.size(), first >= all.size() ? 0 : std::min<std::uint64_t>(count, all.size() - first));
    for (std::size_t j = 0; j < rows.size(); ++j) ASSERT_EQ(rows[j], all[first + j]);
  }
}

}  // namespace
}  // namespace locksley::result_log_test
