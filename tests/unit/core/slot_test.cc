// An executor without a thread: turns of a lane, handed out job by job by the test itself.
#include "core/slot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::Row;
using testing::rows_of;
constexpr std::size_t kAnySize = ~std::size_t{0};

// Payloads of which some cannot be had.
class PatchyPayloads final : public PayloadSource {
 public:
  explicit PatchyPayloads(std::uint64_t bad) : bad_(bad) {}
  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) override {
    if (first <= bad_ && bad_ < first + out.size()) throw std::runtime_error("lost");
    for (std::string_view& payload : out) payload = "payload";
  }
  std::uint64_t memory_bytes() const override { return 0; }

 private:
  const std::uint64_t bad_;
};

class SlotTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> submit(
      std::uint64_t jobs, BatchOptions options = {},
      std::unique_ptr<PayloadSource> payloads = std::make_unique<RangePayloads>(100)) {
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::move(payloads));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  // Starts all that the turn has.
  std::uint64_t start_all() {
    std::uint64_t started = 0;
    while (slot.start_job()) ++started;
    return started;
  }
  void end(std::uint64_t jobs, JobStatus status = JobStatus::ok) {
    for (std::uint64_t i = 0; i < jobs; ++i) slot.end_job(status, "x");
  }
  // Runs turns of up to ten until nothing is left; how many jobs that were.
  std::uint64_t run_rest() {
    std::uint64_t jobs = 0;
    while (slot.begin_turn(10, kAnySize)) {
      const std::uint64_t started = start_all();
      end(started);
      jobs += started;
      slot.end_turn();
    }
    return jobs;
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  // Turns are of many jobs from the start.
  Lane lane{"slots", {.share = Share::jobs, .quantum = std::chrono::seconds(1)}};
  Slot slot{lane};
};

TEST_F(SlotTest, NothingToClaimIsNoTurn) {
  EXPECT_FALSE(slot.begin_turn(1, kAnySize));
  EXPECT_FALSE(slot.has_turn());
}

TEST_F(SlotTest, JobsComeInOrderAndEndInOrder) {
  const auto batch = submit(3);
  ASSERT_TRUE(slot.begin_turn(1, kAnySize));
  const auto job = slot.start_job();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->index, 0U);
  EXPECT_EQ(job->payload, "100");
  EXPECT_FALSE(slot.start_job()) << "one was all that was asked for";
  EXPECT_EQ(slot.running_jobs(), 1U);
  EXPECT_EQ(batch->status().running, 1U);
  slot.end_job(JobStatus::crashed, "why");
  slot.end_turn();
  EXPECT_EQ(batch->status().failed, 1U);
  EXPECT_EQ(run_rest(), 2U);
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(
      rows_of(*batch),
      (std::vector<Row>{{0, JobStatus::crashed, "why"}, {1, JobStatus::ok, "x"}, {2, JobStatus::ok, "x"}}));
}

TEST_F(SlotTest, ATurnHasNoMoreThanWasAskedFor) {
  submit(1000);
  for (const std::uint64_t most : {1U, 2U, 7U, 100U}) {
    ASSERT_TRUE(slot.begin_turn(most, kAnySize));
    const std::uint64_t started = start_all();
    EXPECT_LE(started, most);
    EXPECT_GE(started, 1U);
    end(started);
    slot.end_turn();
  }
  run_rest();
}

TEST_F(SlotTest, LargePayloadsMakeSmallTurns) {
  const auto batch =
      submit(50, {}, std::make_unique<StringPayloads>(std::vector<std::string>(50, std::string(1000, 'x'))));
  run_rest();  // so that turns are of many
  const auto large =
      submit(50, {}, std::make_unique<StringPayloads>(std::vector<std::string>(50, std::string(1000, 'x'))));
  while (!large->is_over()) {
    ASSERT_TRUE(slot.begin_turn(50, 2500));
    const std::uint64_t started = start_all();
    EXPECT_LE(started, 3U);
    end(started);
    slot.end_turn();
  }
  EXPECT_EQ(rows_of(*large).size(), 50U);
}

TEST_F(SlotTest, WhatEndedCanBeSeenBeforeTheTurnIsOver) {
  const auto batch = submit(1);
  ASSERT_TRUE(slot.begin_turn(1, kAnySize));
  start_all();
  end(1);
  EXPECT_TRUE(rows_of(*batch).empty());
  slot.publish();
  EXPECT_EQ(rows_of(*batch).size(), 1U);
  slot.end_turn();
}

TEST_F(SlotTest, WhatDidNotEndGoesBackAndRunsOnceMore) {
  int wakes = 0;
  lane.on_work([&wakes] { ++wakes; });
  const auto batch = submit(5);
  const int before = wakes;
  ASSERT_TRUE(slot.begin_turn(5, kAnySize));
  const std::uint64_t started = start_all();
  ASSERT_GE(started, 1U);
  end(started - 1);
  slot.end_turn();  // the last that was started has not ended
  EXPECT_GT(wakes, before) << "other slots may take it";
  EXPECT_EQ(batch->status().queued, 5 - (started - 1));
  EXPECT_EQ(run_rest(), 5 - (started - 1));
  EXPECT_EQ(batch->status().ok, 5U);
  EXPECT_EQ(rows_of(*batch).size(), 5U);
}

TEST_F(SlotTest, ACancelledBatchStartsNoMore) {
  const auto batch = submit(5);
  ASSERT_TRUE(slot.begin_turn(5, kAnySize));
  ASSERT_TRUE(slot.start_job());
  bool was_told = false;
  lane.on_stop([&was_told] { was_told = true; });
  lane.cancel(*batch, "no");
  EXPECT_TRUE(was_told);
  EXPECT_TRUE(slot.batch().is_stopping());
  EXPECT_FALSE(slot.start_job());
  EXPECT_EQ(slot.running_jobs(), 1U);
  slot.end_turn();  // handed back: recorded as cancelled
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().cancelled, 5U);
  EXPECT_FALSE(slot.begin_turn(1, kAnySize));
}

TEST_F(SlotTest, APausedBatchStartsNoMoreUntilItGoesOn) {
  const auto batch = submit(5);
  ASSERT_TRUE(slot.begin_turn(5, kAnySize));
  ASSERT_TRUE(slot.start_job());
  lane.pause(*batch);
  EXPECT_FALSE(slot.start_job());
  end(1);
  slot.end_turn();
  EXPECT_FALSE(slot.begin_turn(1, kAnySize));
  lane.resume(*batch);
  EXPECT_EQ(run_rest(), 4U);
}

// Into another lane, and back, with all that has not run; not while a job runs.
TEST_F(SlotTest, ABatchGoesOnInAnotherLane) {
  Lane other("other", {.share = Share::jobs, .quantum = std::chrono::seconds(1)});
  const auto batch = submit(20);
  ASSERT_TRUE(slot.begin_turn(3, kAnySize));
  ASSERT_TRUE(slot.start_job());
  EXPECT_TRUE(lane.ring().has_claims(batch->ring_queue()));
  EXPECT_FALSE(lane.hand_over(batch, other));
  slot.end_job(JobStatus::ok, "x");
  slot.end_turn();
  EXPECT_FALSE(lane.ring().has_claims(batch->ring_queue()));
  ASSERT_TRUE(lane.hand_over(batch, other));
  EXPECT_FALSE(slot.begin_turn(10, kAnySize));
  EXPECT_EQ(other.ring().view(batch->ring_queue(), steady_now()).queued, 19u);
  Slot there(other);
  ASSERT_TRUE(there.begin_turn(5, kAnySize));
  while (there.start_job()) there.end_job(JobStatus::ok, "y");
  there.end_turn();
  ASSERT_TRUE(other.hand_over(batch, lane));
  EXPECT_GT(run_rest(), 0u);
  EXPECT_TRUE(batch->is_over());
  std::vector<std::uint64_t> indexes;
  for (const Row& row : rows_of(*batch)) indexes.push_back(row.index);
  std::ranges::sort(indexes);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(indexes.at(i), i);
  EXPECT_EQ(indexes.size(), 20u);
}

TEST_F(SlotTest, AHeldBatchIsHeldInTheOtherLaneToo) {
  Lane other("other", {});
  const auto batch = submit(2);
  lane.hold(*batch, Hold::handler);
  ASSERT_TRUE(lane.hand_over(batch, other));
  Slot there(other);
  EXPECT_FALSE(there.begin_turn(1, kAnySize));
  other.release(*batch, Hold::handler);
  EXPECT_TRUE(there.begin_turn(1, kAnySize));
  there.end_turn();
  other.cancel(*batch, "over");
}

TEST_F(SlotTest, AnOpenBatchTakesJobsInItsNewLane) {
  Lane other("other", {});
  const auto batch = std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(100));
  lane.submit(batch, 0, /*open=*/true);
  ASSERT_TRUE(lane.hand_over(batch, other));
  EXPECT_TRUE(other.add_jobs(*batch, 1));
  other.close(*batch);
  Slot there(other);
  ASSERT_TRUE(there.begin_turn(1, kAnySize));
  ASSERT_TRUE(there.start_job());
  there.end_job(JobStatus::ok, "");
  there.end_turn();
  EXPECT_TRUE(batch->is_over());
  // Over, and in no ring: there is nothing to hand over.
  EXPECT_TRUE(other.hand_over(batch, lane));
}

TEST_F(SlotTest, TooManyFailuresCancelTheRest) {
  BatchOptions options;
  options.max_fails = 2;
  const auto batch = submit(100, options);
  int turns = 0;
  while (slot.begin_turn(1, kAnySize)) {
    ASSERT_LT(++turns, 10);
    if (slot.start_job()) slot.end_job(JobStatus::error, "no");
    slot.end_turn();
  }
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(batch->status().failed, 2U);
  EXPECT_EQ(batch->status().cancelled, 98U);
}

TEST_F(SlotTest, APayloadThatCannotBeHadIsTheErrorOfItsJobAlone) {
  for (const std::uint64_t bad : {0U, 1U, 4U}) {
    const auto batch = submit(5, {}, std::make_unique<PatchyPayloads>(bad));
    EXPECT_EQ(run_rest(), 4U);
    EXPECT_TRUE(batch->is_over());
    const BatchStatus status = batch->status();
    EXPECT_EQ(status.ok, 4U);
    EXPECT_EQ(status.failed, 1U);
    for (const Row& row : rows_of(*batch)) {
      if (row.index != bad) continue;
      EXPECT_EQ(row.output, "the payload cannot be had: lost");
    }
  }
}

TEST_F(SlotTest, TwoSlotsShareABatch) {
  const auto batch = submit(2);
  Slot other(lane);
  ASSERT_TRUE(slot.begin_turn(1, kAnySize));
  ASSERT_TRUE(other.begin_turn(1, kAnySize));
  EXPECT_EQ(slot.start_job()->index, 0U);
  EXPECT_EQ(other.start_job()->index, 1U);
  other.end_job(JobStatus::ok, "");
  other.end_turn();
  EXPECT_EQ(batch->status().ok, 1U);
  slot.end_job(JobStatus::ok, "");
  slot.end_turn();
  EXPECT_TRUE(batch->is_over());
}

TEST_F(SlotTest, TurnsAreSharedBetweenBatches) {
  const auto large = submit(10'000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(slot.begin_turn(1, kAnySize));
    start_all();
    end(1);
    slot.end_turn();
  }
  const auto small = submit(3);
  std::uint64_t turns = 0;
  for (; !small->is_over(); ++turns) {
    ASSERT_TRUE(slot.begin_turn(1, kAnySize));
    start_all();
    end(1);
    slot.end_turn();
  }
  EXPECT_LE(turns, 8U);
  lane.cancel(*large, "");
}

}  // namespace
}  // namespace locksley
