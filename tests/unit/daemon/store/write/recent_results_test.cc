// Which rows leave memory, and how many entries there are.
#include "daemon/store/write/recent_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/batch_fixture.h"

namespace locksley::daemon {
namespace {

class RecentResultsTest : public locksley::testing::BatchFixture {
 protected:
  // A batch with one row, which is in memory.
  std::shared_ptr<Batch> make_with_row() {
    std::shared_ptr<Batch> batch = make();
    batch->jobs_added(1);
    publish(*batch, {{0, JobStatus::kOk, "x"}});
    return batch;
  }
  void add(const std::shared_ptr<Batch>& batch) { recent_.add(batch, 1, kRowBytes); }
  // Whether the row is in memory: else the journal is asked for it.
  bool is_in_memory(const Batch& batch) {
    journal.asked.clear();
    read(batch, 0, 1);
    return journal.asked.empty();
  }

  static constexpr std::size_t kRowBytes = 100;
  RecentResults recent_;
};

TEST_F(RecentResultsTest, TheOldestRowsLeaveFirst) {
  std::vector<std::shared_ptr<Batch>> batches;
  for (int i = 0; i < 3; ++i) add(batches.emplace_back(make_with_row()));
  EXPECT_EQ(recent_.bytes(), 3 * (kRowBytes + RecentResults::kEntryBytes));
  recent_.free(2 * (kRowBytes + RecentResults::kEntryBytes));
  EXPECT_FALSE(is_in_memory(*batches[0]));
  EXPECT_TRUE(is_in_memory(*batches[1]));
  EXPECT_TRUE(is_in_memory(*batches[2]));
  recent_.free(0);
  EXPECT_FALSE(is_in_memory(*batches[2]));
  EXPECT_EQ(recent_.size(), 0U);
  EXPECT_EQ(recent_.bytes(), 0U);
}

// A daemon that runs small batches which are forgotten at once.
TEST_F(RecentResultsTest, BatchesThatAreGoneLeaveNoEntries) {
  const std::shared_ptr<Batch> first = make_with_row();
  add(first);
  std::size_t most = 0;
  for (int i = 0; i < 30'000; ++i) {
    add(std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0), &observer));
    most = std::max(most, recent_.size());
  }
  EXPECT_LT(most, 10'000U);
  EXPECT_EQ(recent_.bytes(), recent_.size() * (kRowBytes + RecentResults::kEntryBytes));
  EXPECT_TRUE(is_in_memory(*first));
  recent_.free(0);
  EXPECT_FALSE(is_in_memory(*first));
}

TEST_F(RecentResultsTest, BatchesThatAreThereKeepTheirEntries) {
  std::vector<std::shared_ptr<Batch>> batches;
  for (int i = 0; i < 10'000; ++i) {
    add(batches.emplace_back(
        std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0), &observer)));
  }
  EXPECT_EQ(recent_.size(), batches.size());
  batches.clear();
  recent_.free(0);
  EXPECT_EQ(recent_.bytes(), 0U);
}

}  // namespace
}  // namespace locksley::daemon
