// A worker that waits inside a job, and gets a sub-job of another batch.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/lane/lane_view.h"
#include "core/pool/pool.h"
#include "core/tasks/spawner.h"
#include "core/tasks/task_group.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::PoolFixture;
using testing::spin_for;
using testing::wait_until;
using namespace std::chrono_literals;

// Four workers, and batches of two tenants.
class StolenFromOtherBatchTest : public PoolFixture {
 protected:
  StolenFromOtherBatchTest() : PoolFixture(/*workers=*/4) {}
  static BatchOptions of(std::string tenant) {
    BatchOptions options;
    options.tenant = std::move(tenant);
    return options;
  }
  Nanoseconds charged_to(std::string_view tenant) {
    Nanoseconds busy{};
    for (const TenantView& view : lane.view().snapshot(0).tenants) {
      if (view.tenant == tenant) busy = view.busy;
    }
    return busy;
  }
};

// Between a worker's look at its victim and the steal, the victim may change to a job of another
// batch. Here the victim has a sub-job of the other batch all the time, which comes to the same.
TEST_F(StolenFromOtherBatchTest, ASubJobOfAnotherBatchThatIsStolenInAWaitIsChargedToThatBatch) {
  constexpr Nanoseconds kLong = 20ms;
  const Nanoseconds began = steady_now();
  std::atomic<bool> runs{false}, waits{false}, has_run{false};
  Nanoseconds job_of_other{};
  Handler& run_other = handler([&](JobContext&, std::string_view) {
    const Nanoseconds job_began = steady_now();
    runs = true;
    wait_until([&] { return has_run.load(); }, "its sub-job has run");
    job_of_other = steady_now() - job_began;
  });
  const auto other = submit_range(run_other, 1, of("other"));
  wait_until([&] { return runs.load(); }, "the other job runs");
  const JobFrame frame{.batch = other.get(), .index = 0};
  std::atomic<const Batch*> nested{nullptr}, afterwards{nullptr};
  Handler& run = handler([&](JobContext& context, std::string_view payload) {
    TaskGroup group(context);
    if (payload == "0") {
      wait_until([&] { return waits.load(); }, "the other job waits");
      group.spawn([](Context&) {});
      Context of_other(context.spawner(), frame);
      TaskGroup others(of_other);
      others.spawn([&](Context& inner) {
        TaskGroup more(inner);
        more.spawn([](Context&) {});
        nested = inner.spawner().batch();
        more.wait();
        spin_for(kLong);
        has_run = true;
      });
      wait_until([&] { return has_run.load(); }, "the sub-job of the other batch has run");
      return;
    }
    // The fourth worker steals this, and keeps this one waiting.
    group.spawn([&](Context&) {
      waits = true;
      wait_until([&] { return has_run.load(); }, "the sub-job of the other batch has run");
    });
    wait_until([&] { return waits.load(); }, "the sub-job is stolen");
    group.wait();
    group.spawn([](Context&) {});
    afterwards = context.spawner().batch();
  });
  const auto batch = submit_range(run, 2, of("own"));
  wait_over(*batch);
  wait_over(*other);
  wait_until([&] { return lane.view().snapshot(0).executors == 0; }, "all turns are settled");
  EXPECT_EQ(nested.load(), other.get()) << "whom thieves take its own sub-jobs for";
  EXPECT_EQ(afterwards.load(), batch.get());
  EXPECT_GE(charged_to("other"), job_of_other + kLong);
  EXPECT_LE(charged_to("own"), 3 * (steady_now() - began) - kLong)
      << "three workers, and not for the other batch";
}

}  // namespace
}  // namespace locksley
