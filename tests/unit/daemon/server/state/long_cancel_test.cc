// MAXFAILS of a batch whose jobs lie scattered: workers do not drop them.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/server/payloads/fixed_payloads.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

// Which thread ended the batch.
class EndObserver final : public BatchObserver {
 public:
  void batch_changed(const std::shared_ptr<Batch>& batch) override {
    if (batch->is_over()) ended_by.set_value(std::this_thread::get_id());
  }
  void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
  void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}

  std::promise<std::thread::id> ended_by;
};

class LongCancelTest : public ServerFixture {};

TEST_F(LongCancelTest, TheWorkerThatRecordsTheLastFailureDoesNotDropTheRest) {
  constexpr std::uint64_t kLeft = 8 * Batch::kDroppedAtOnce;
  start();
  std::thread::id worker;
  EndObserver observer;
  // Fails the first job that runs; the batch has one slot, so none runs at the same time.
  Handler failing{"failing", "", [&worker](JobContext& context, std::string_view) {
                    worker = std::this_thread::get_id();
                    context.fail("no");
                  }};
  BatchOptions options;
  options.id = "scattered";
  options.max_fails = 1;
  options.slots = 1;
  auto batch = std::make_shared<BatchRecord>(std::move(options), failing,
                                             std::make_unique<RangedPayloads>(RangeJobs{}), &observer, lane_,
                                             BatchRecord::Origin::kSubmit, 1);
  BatchHistory history;
  history.jobs = 2 * kLeft;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = kLeft;
  history.closed = true;
  batch->restore(history);
  std::vector<IndexRange> left;
  for (std::uint64_t i = 0; i < kLeft; ++i) left.push_back({2 * i, 2 * i + 1});
  lane_.enqueue(batch, left, /*open=*/false);
  EXPECT_NE(observer.ended_by.get_future().get(), worker);
  const BatchStatus status = batch->status();
  EXPECT_EQ(status.failed, 1U);
  EXPECT_EQ(status.cancelled, kLeft - 1);
  stop();
}

}  // namespace
}  // namespace locksley::daemon
