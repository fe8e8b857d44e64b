#include "daemon/server/batches/stored/job_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "core/batch/batch_journal.h"
#include "core/batch/handler.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/payloads/fixed_payloads.h"
#include "tests/support/patchy_payloads.h"

namespace locksley::daemon {
namespace {

class JobSearchTest : public ::testing::Test {
 protected:
  std::shared_ptr<BatchRecord> range_with(std::string pattern) LOCKSLEY_REQUIRES(kIoThread) {
    auto payloads =
        std::make_unique<RangedPayloads>(RangeJobs{.low = 0, .high = 10, .pattern = pattern_of(pattern)});
    auto record = std::make_shared<BatchRecord>(BatchOptions{}, handler_, std::move(payloads), nullptr, lane_,
                                                BatchRecord::Origin::kSubmit);
    record->jobs_added(10);
    return record;
  }
  std::shared_ptr<const FoundJob> begin(const std::shared_ptr<BatchRecord>& record)
      LOCKSLEY_REQUIRES(kIoThread) {
    const JobDemand demand{
        .client = client_, .index = 7, .most_rows = 0, .open_range = record->payloads().open_range()};
    return JobSearch::begin(io_, post(), record, demand, [](const FoundJob&) {});
  }
  // As a reader does for one user.
  JobSearch::Post post() {
    return [this](Reader::Task task, Reader::Place place) {
      tasks_.insert(place == Reader::Place::kFirst ? tasks_.begin() : tasks_.end(), std::move(task));
    };
  }
  // Runs the reader's tasks, and those that they post; returns their number.
  std::size_t run_tasks() {
    std::size_t count = 0;
    for (; !tasks_.empty(); ++count) {
      Reader::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    return count;
  }

  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  asio::io_context io_;
  std::deque<Reader::Task> tasks_;
  // The client that waits.
  std::shared_ptr<int> client_ = std::make_shared<int>();
};

// Has rows of jobs that no test looks for, and keeps which rows it was asked for. All have the same
// output.
class OtherRows final : public BatchJournal {
 public:
  OtherRows(std::vector<IndexRange>& asked, std::string output) : asked_(asked), output_(std::move(output)) {}
  void record(BatchStep) override {}
  void wait_for_room() override {}
  std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                          const std::function<bool(const ResultRow&)>& visit) override {
    asked_.push_back({first, first + max_rows});
    for (std::uint64_t i = 0; i < max_rows; ++i) {
      if (!visit({kOtherJob, JobStatus::kOk, output_})) return i;
    }
    return max_rows;
  }
  static constexpr std::uint64_t kOtherJob = 77'777;

 private:
  std::vector<IndexRange>& asked_;
  const std::string output_;
};

class RowSearchTest : public JobSearchTest {
 protected:
  // A batch whose journal has the results of so many jobs.
  std::shared_ptr<BatchRecord> with_rows(std::uint64_t rows, std::string output = {})
      LOCKSLEY_REQUIRES(kIoThread) {
    auto record = std::make_shared<BatchRecord>(
        BatchOptions{}, handler_, std::make_unique<RangedPayloads>(RangeJobs{}), nullptr, lane_,
        BatchRecord::Origin::kSubmit, 0, std::make_unique<OtherRows>(asked_, std::move(output)));
    BatchHistory history;
    history.jobs = history.rows = rows;
    history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = rows;
    record->restore(history);
    return record;
  }
  std::shared_ptr<const FoundJob> search(const std::shared_ptr<BatchRecord>& record, const JobDemand& demand)
      LOCKSLEY_REQUIRES(kIoThread) {
    return JobSearch::begin(io_, post(), record, demand, [](const FoundJob&) {});
  }
  std::vector<IndexRange> asked_;
};

TEST_F(RowSearchTest, EachRowIsLookedAtOnce) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::uint64_t kRows = 10'000;
  for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{5'000}, kRows - 1}) {
    asked_.clear();
    search(with_rows(kRows), {.client = client_, .index = index});
    run_tasks();
    EXPECT_EQ(count_of(asked_), kRows) << index;
    const std::vector<IndexRange> all{{0, kRows}};
    EXPECT_EQ(count_of(difference(all, sorted(asked_))), 0U) << index;
  }
}

// To free it takes milliseconds.
TEST_F(RowSearchTest, AResultForWhichNoClientWaitsIsFreedByTheReader) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = with_rows(1, std::string(2U << 20, 'x'));
  const JobDemand demand{.client = client_, .index = OtherRows::kOtherJob};
  auto found = search(record, demand);
  run_tasks();
  io_.poll();
  EXPECT_EQ(tasks_.size(), 0U) << "its command goes on with it";
  EXPECT_EQ(found->row->output.size(), 2U << 20);
  io_.restart();
  found = search(record, demand);
  found.reset();
  run_tasks();
  io_.poll();
  EXPECT_EQ(tasks_.size(), 1U);
}

TEST_F(RowSearchTest, ASearchForWhichNoClientWaitsAnyMoreEndsWithItsNextTask) {
  const ThreadRoleScope io_thread(kIoThread);
  auto record = with_rows(10'000'000);
  const std::weak_ptr<BatchRecord> batch = record;
  int calls = 0;
  auto found = JobSearch::begin(io_, post(), record, {.client = client_}, [&](const FoundJob&) { ++calls; });
  record.reset();
  Reader::Task first = std::move(tasks_.front());
  tasks_.pop_front();
  first();
  ASSERT_EQ(tasks_.size(), 1U) << "it goes on";
  const std::size_t asked = asked_.size();
  client_.reset();
  EXPECT_EQ(run_tasks(), 1U);
  EXPECT_EQ(asked_.size(), asked) << "it has looked at no more rows";
  io_.poll();
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(batch.expired()) << "its memory is free";
}

TEST_F(RowSearchTest, AnOutputThatIsNotWantedIsNotCopied) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto found = search(with_rows(1, "output"),
                            {.client = client_, .index = OtherRows::kOtherJob, .wants_output = false});
  run_tasks();
  ASSERT_TRUE(found->row.has_value());
  EXPECT_EQ(found->row->output, "");
}

TEST_F(JobSearchTest, APayloadOfManyMegabytesIsComputedInSeveralTasks) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::size_t kPlaces = 8U << 20;
  std::string pattern;
  for (std::size_t i = 0; i < kPlaces; ++i) pattern += "{}";
  const auto record = range_with(std::move(pattern));
  const auto found = begin(record);
  EXPECT_GT(run_tasks(), 4U) << "so that the reader serves others in between";
  io_.poll();
  ASSERT_TRUE(found->is_done);
  ASSERT_TRUE(found->payload.has_value());
  EXPECT_TRUE(*found->payload == std::string(kPlaces, '7'));
}

// Each has its pattern and payload in memory, which no account carries until the search is done.
TEST_F(JobSearchTest, OnePayloadOfAUserIsComputedAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  std::string pattern;
  for (std::size_t i = 0; i < (8U << 20); ++i) pattern += "{}";
  const auto record = range_with("x");
  std::vector<std::weak_ptr<const RangePayloads>> opened;
  std::size_t most_open = 0;
  const OpenRange open = [&] {
    const auto range = std::make_shared<const RangePayloads>(0, pattern_of(pattern).text);
    opened.push_back(range);
    const auto count = std::ranges::count_if(opened, [](const auto& one) { return !one.expired(); });
    most_open = std::max(most_open, static_cast<std::size_t>(count));
    return range;
  };
  const JobDemand demand{.client = client_, .index = 7, .most_rows = 0, .open_range = open};
  std::vector<std::shared_ptr<const FoundJob>> found;
  for (int i = 0; i < 3; ++i) {
    found.push_back(JobSearch::begin(io_, post(), record, demand, [](const FoundJob&) {}));
  }
  EXPECT_GT(run_tasks(), 9U) << "each took several";
  io_.poll();
  EXPECT_EQ(opened.size(), 3U);
  EXPECT_EQ(most_open, 1U);
  for (const auto& each : found) EXPECT_TRUE(each->payload.has_value());
}

TEST_F(JobSearchTest, OneThatCannotBeReadIsLeftOut) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = range_with("x");
  const JobDemand demand{.client = client_,
                         .index = 7,
                         .most_rows = 0,
                         .open_range = []() -> std::shared_ptr<const RangePayloads> {
                           throw std::runtime_error("cannot read the store");
                         }};
  const auto found = JobSearch::begin(io_, post(), record, demand, [](const FoundJob&) {});
  run_tasks();
  io_.poll();
  EXPECT_TRUE(found->is_done);
  EXPECT_FALSE(found->payload.has_value());
  EXPECT_EQ(found->error, "");
}

TEST_F(JobSearchTest, OneThatCannotBeReadNowIsAnError) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = range_with("x");
  JobDemand of_range{.client = client_, .index = 7, .most_rows = 0, .open_range = [] { return nullptr; }};
  std::atomic<std::uint64_t> first_away = 7;
  JobDemand read{.client = client_,
                 .index = 7,
                 .most_rows = 0,
                 .payloads = std::make_shared<testing::AwayPayloads>(first_away)};
  for (const JobDemand& demand : {of_range, read}) {
    io_.restart();
    const auto found = JobSearch::begin(io_, post(), record, demand, [](const FoundJob&) {});
    run_tasks();
    io_.poll();
    EXPECT_TRUE(found->is_done);
    EXPECT_EQ(found->error, "cannot read the payload from the store now; retry later");
  }
}

}  // namespace
}  // namespace locksley::daemon
