#include "daemon/server/batches/stored/job_search.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>

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
    const JobDemand demand{.index = 7, .most_rows = 0, .open_range = record->payloads().open_range()};
    return JobSearch::begin(
        io_, [this](Reader::Task task) { tasks_.push_back(std::move(task)); }, record, demand,
        [](const FoundJob&) {});
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
};

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

TEST_F(JobSearchTest, OneThatCannotBeReadIsLeftOut) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = range_with("x");
  const JobDemand demand{
      .index = 7, .most_rows = 0, .open_range = []() -> std::shared_ptr<const RangePayloads> {
        throw std::runtime_error("cannot read the store");
      }};
  const auto found = JobSearch::begin(
      io_, [this](Reader::Task task) { tasks_.push_back(std::move(task)); }, record, demand,
      [](const FoundJob&) {});
  run_tasks();
  io_.poll();
  EXPECT_TRUE(found->is_done);
  EXPECT_FALSE(found->payload.has_value());
  EXPECT_EQ(found->error, "");
}

TEST_F(JobSearchTest, OneThatCannotBeReadNowIsAnError) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = range_with("x");
  JobDemand of_range{.index = 7, .most_rows = 0, .open_range = [] { return nullptr; }};
  std::atomic<std::uint64_t> first_away = 7;
  JobDemand read{.index = 7, .most_rows = 0, .payloads = std::make_shared<testing::AwayPayloads>(first_away)};
  for (const JobDemand& demand : {of_range, read}) {
    io_.restart();
    const auto found = JobSearch::begin(
        io_, [this](Reader::Task task) { tasks_.push_back(std::move(task)); }, record, demand,
        [](const FoundJob&) {});
    run_tasks();
    io_.poll();
    EXPECT_TRUE(found->is_done);
    EXPECT_EQ(found->error, "cannot read the payload from the store now; retry later");
  }
}

}  // namespace
}  // namespace locksley::daemon
