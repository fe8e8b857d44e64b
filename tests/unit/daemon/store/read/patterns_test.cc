// The patterns of ranges, which lie apart from the rows of their batches.
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/hash128.h"
#include "daemon/store/rows/codec.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::count_rows;
using ::testing::HasSubstr;
using testing::StepMaker;
using testing::StoreBench;

constexpr std::size_t kLong = 100'000;

// "{}" and so many bytes.
std::string pattern_of(std::size_t size) { return "{}" + std::string(size - 2, 'x'); }
std::string payload_of(std::uint64_t number, std::size_t size) {
  return std::to_string(number) + std::string(size - 2, 'x');
}

AcceptBatch accept_range(std::uint64_t sequence, std::uint64_t jobs, std::string pattern) {
  AcceptBatch accept{.sequence = sequence, .row = {}, .payloads = nullptr};
  accept.row.handler = "echo";
  accept.row.options.id = "batch-" + std::to_string(sequence);
  accept.row.jobs = jobs;
  accept.row.payload_bytes = pattern.size();
  accept.row.range = {.low = 7, .payload = std::move(pattern)};
  return accept;
}

// The row of the acceptance as programs wrote it that put each pattern into it.
std::string earlier_row(const AcceptedRow& row) {
  const std::string pattern = *row.range->payload;
  AcceptedRow brief = row;
  brief.payload_bytes = 0;
  brief.range->payload = std::string("{brief}");
  std::string bytes = encode(brief);
  std::string written;
  Encoder(written).text(pattern);
  const std::string there = "\x07{brief}";
  return bytes.replace(bytes.find(there), there.size(), written);
}

class PatternsTest : public ::testing::Test {
 protected:
  // Closes the store, and opens it again.
  void reopen() {
    bench.close();
    auto opened = Store::open(bench.options(), testing::silent_log());
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    bench.store = std::move(*opened);
    found.clear();
    const auto recovered =
        bench.store->recover([&](StoredBatch batch) { found.emplace(batch.sequence, std::move(batch)); });
    ASSERT_TRUE(recovered.has_value()) << recovered.error().what;
    bench.start();
  }
  void end(std::uint64_t sequence, JobStatus status) {
    StepMaker steps(sequence);
    bench.put(StepMaker::as_last(steps.end_jobs({0, 2}, status)));
    bench.flush();
  }
  std::size_t rows(std::uint64_t sequence, const char* family) {
    return count_rows(bench.raw(), sequence, family);
  }
  // As a worker fetches it; the error in its place.
  std::string fetch(std::uint64_t sequence, std::uint64_t job) {
    std::string scratch;
    std::string_view payload;
    try {
      bench.store->range_payloads(sequence, 7)->fetch(job, {&payload, 1}, scratch);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return std::string(payload);
  }

  StoreBench bench;
  std::map<std::uint64_t, StoredBatch> found;
};

TEST_F(PatternsTest, OneThatIsShortLiesInTheRowOfItsBatch) {
  bench.open();
  bench.commit(accept_range(1, 2, pattern_of(kMostPatternInside)));
  reopen();
  EXPECT_EQ(found.at(1).accepted.range->payload, pattern_of(kMostPatternInside));
  bench.close();
  EXPECT_EQ(rows(1, "payloads"), 0U);
  EXPECT_EQ(rows(1, "index"), 1U);
}

TEST_F(PatternsTest, OneThatIsLongIsReadForABatchThatGoesOnAndNotForOneThatIsOver) {
  bench.open();
  for (const std::uint64_t sequence : {1U, 2U, 3U})
    bench.commit(accept_range(sequence, 2, pattern_of(kLong)));
  end(2, JobStatus::kError);
  end(3, JobStatus::kOk);
  for (int start = 0; start < 2; ++start) {
    reopen();
    EXPECT_EQ(found.at(1).accepted.range->payload, pattern_of(kLong));
    EXPECT_EQ(found.at(1).payload_bytes, kLong);
    for (const std::uint64_t over : {2U, 3U}) {
      const auto loaded = bench.store->load(over);
      ASSERT_TRUE(loaded.has_value()) << loaded.error();
      for (const StoredBatch* each : {&*loaded, &std::as_const(found).at(over)}) {
        EXPECT_TRUE(each->accepted.range->is_apart);
        EXPECT_FALSE(each->accepted.range->payload.has_value());
        EXPECT_EQ(each->accepted.range->low, 7);
        EXPECT_EQ(each->payload_bytes, over == 2 ? kLong : 0U) << "it stays while jobs may run again";
      }
    }
    EXPECT_EQ(fetch(1, 0), payload_of(7, kLong));
    EXPECT_EQ(fetch(2, 1), payload_of(8, kLong));
    EXPECT_THAT(fetch(3, 0), HasSubstr("cannot read the pattern of the range"));
  }
  bench.close();
  EXPECT_EQ(rows(2, "payloads"), 1U);
  EXPECT_EQ(rows(3, "payloads"), 0U);
}

TEST_F(PatternsTest, OneThatIsLongIsForgottenWithItsBatch) {
  bench.open();
  for (const std::uint64_t sequence : {1U, 2U}) {
    bench.commit(accept_range(sequence, 2, pattern_of(kLong)));
    end(sequence, JobStatus::kError);
  }
  bench.commit(ForgetBatch{.sequence = 1, .rows = {.parts = PayloadParts::kOne}});
  reopen();
  EXPECT_EQ(found.at(2).parts, PayloadParts::kOne);
  bench.commit(ForgetBatch{.sequence = 2, .rows = {.parts = found.at(2).parts}});
  bench.close();
  EXPECT_EQ(count_rows(bench.raw(), 1), 0U);
  EXPECT_EQ(count_rows(bench.raw(), 2), 0U);
}

TEST_F(PatternsTest, ThoseOfAnEarlierVersionGetRowsAtTheNextStart) {
  bench.open();
  for (const std::uint64_t sequence : {1U, 2U, 3U}) bench.commit(accept_range(sequence, 2, "{}"));
  end(2, JobStatus::kError);
  end(3, JobStatus::kOk);
  bench.close();
  bench.edit([](Engine::Group& group) {
    for (const std::uint64_t sequence : {1U, 2U, 3U}) {
      AcceptedRow row = accept_range(sequence, 2, pattern_of(kLong)).row;
      row.id_is_chosen = true;
      group.put(Table::kIndex, row_key(kAcceptedKey, sequence), earlier_row(row));
    }
  });
  reopen();
  for (const std::uint64_t sequence : {1U, 2U, 3U}) {
    EXPECT_EQ(found.at(sequence).accepted.range->payload, pattern_of(kLong)) << "as it was";
  }
  bench.flush();
  for (int start = 0; start < 2; ++start) {
    reopen();
    EXPECT_EQ(found.at(1).accepted.range->payload, pattern_of(kLong));
    const Hash128::Value digest = Hash128::of(pattern_of(kLong));
    for (const std::uint64_t sequence : {1U, 2U, 3U}) {
      EXPECT_TRUE(found.at(sequence).accepted.range->is_apart);
      ASSERT_TRUE(found.at(sequence).accepted.digest.has_value());
      EXPECT_EQ(found.at(sequence).accepted.digest->low, digest.low);
      EXPECT_EQ(found.at(sequence).accepted.digest->high, digest.high);
    }
    EXPECT_FALSE(found.at(2).accepted.range->payload.has_value());
    EXPECT_EQ(fetch(2, 1), payload_of(8, kLong));
  }
  bench.close();
  EXPECT_EQ(rows(1, "payloads"), 1U);
  EXPECT_EQ(rows(2, "payloads"), 1U);
  EXPECT_EQ(rows(3, "payloads"), 0U) << "no job can run again";
}

TEST_F(PatternsTest, OneThatIsLostEndsItsJobsWithAnErrorAndNotTheStart) {
  bench.open();
  bench.commit(accept_range(1, 2, pattern_of(kLong)));
  bench.close();
  bench.edit([](Engine::Group& group) { group.erase(Table::kPayloads, part_key(1, 0)); });
  reopen();
  EXPECT_TRUE(found.at(1).accepted.range->is_apart);
  EXPECT_FALSE(found.at(1).accepted.range->payload.has_value());
  EXPECT_THAT(fetch(1, 0), HasSubstr("cannot read the pattern of the range"));
}

}  // namespace
}  // namespace locksley::daemon
