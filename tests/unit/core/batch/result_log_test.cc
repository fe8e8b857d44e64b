#include "core/batch/result_log.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/support/seed.h"

namespace locksley {
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
  log.append(ResultLog::prepare(bytes, rows.size()));
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
  log.append_run(1, 1'000'000'000'000, JobStatus::kCancelled, "why");
  append(log, {{9, JobStatus::kOk, "y"}});
  EXPECT_LT(log.memory_bytes() - before, 2000u);
  EXPECT_EQ(log.rows(), 1'000'000'000'002u);
  EXPECT_THAT(read(log, 999'999'999'999, 10),
              ::testing::ElementsAre(Row{999'999'999'999, JobStatus::kCancelled, "why"},
                                     Row{1'000'000'000'000, JobStatus::kCancelled, "why"},
                                     Row{9, JobStatus::kOk, "y"}));
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
  log.append_run(100, 50, JobStatus::kCancelled, "why");
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

// What a journal keeps of a publication stays as it was, whatever is appended to its chunk or dropped.
TEST(ResultLogTest, ASliceHoldsJustTheRowsThatWereAppended) {
  ResultLog log;
  std::vector<ResultLog::Slice> slices;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto bytes = encode({{i, JobStatus::kOk, "a"}, {i + 100, JobStatus::kError, std::to_string(i)}});
    slices.push_back(log.append(ResultLog::prepare(bytes, 2)));
  }
  log.drop_before(40);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto expected = encode({{i, JobStatus::kOk, "a"}, {i + 100, JobStatus::kError, std::to_string(i)}});
    EXPECT_EQ(slices[i].first_row, 2 * i);
    EXPECT_EQ(slices[i].rows, 2u);
    ASSERT_EQ(slices[i].size_bytes, expected.size());
    EXPECT_EQ(std::memcmp(slices[i].chunk->bytes.get() + slices[i].offset, expected.data(), expected.size()),
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
      log.append_run(7, count, JobStatus::kCancelled, "gone");
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
}  // namespace locksley
