// What a worker's turn costs beside its jobs: who pays for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "core/batch/batch_journal.h"
#include "core/lane/lane_view.h"
#include "core/pool/pool.h"
#include "tests/support/pool_fixture.h"

namespace locksley {
namespace {

using testing::spin_for;
using testing::wait_until;
using namespace std::chrono_literals;

// Takes its time with each change, on the thread that publishes.
class SlowObserver final : public BatchObserver {
 public:
  explicit SlowObserver(Nanoseconds each) : each_(each) {}
  void batch_changed(const std::shared_ptr<Batch>&) override { spin_for(each_); }
  void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
  void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}

 private:
  const Nanoseconds each_;
};

// Has no room for a while after each publication.
class SlowJournal final : public BatchJournal {
 public:
  explicit SlowJournal(Nanoseconds each) : each_(each) {}
  void record(BatchStep) override {}
  void wait_for_room() override { spin_for(each_); }
  std::uint64_t read_rows(std::uint64_t, std::uint64_t,
                          const std::function<bool(const ResultRow&)>&) override {
    return 0;
  }

 private:
  const Nanoseconds each_;
};

// With one worker, whose quantum is so short that each turn has one job.
class TurnChargesTest : public testing::PoolFixture {
 protected:
  TurnChargesTest() : PoolFixture(/*workers=*/1, /*quantum=*/1ns) {}

  // What all turns of the tenant have used, once they are settled.
  Nanoseconds busy(std::string_view tenant) {
    Nanoseconds busy{};
    wait_until([&] { return lane.view().snapshot(0).executors == 0; }, "all turns are settled");
    for (const TenantView& view : lane.view().snapshot(0).tenants) {
      if (view.tenant == tenant) busy = view.busy;
    }
    return busy;
  }
  std::shared_ptr<Batch> submit(Handler& run, std::uint64_t jobs, std::string tenant,
                                std::unique_ptr<BatchJournal> journal = nullptr) {
    BatchOptions options;
    options.tenant = std::move(tenant);
    auto batch = std::make_shared<Batch>(std::move(options), run, std::make_unique<RangePayloads>(0),
                                         observer, std::move(journal));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }

  static constexpr std::uint64_t kJobs = 10;
  static constexpr Nanoseconds kEach = 2ms;
  static constexpr Nanoseconds kAll = std::int64_t{kJobs} * kEach;
  Handler& nothing = handler([](JobContext&, std::string_view) {});
};

TEST_F(TurnChargesTest, ABatchPaysForThePublicationOfItsResults) {
  SlowObserver slow(kEach);
  observer = &slow;
  wait_over(*submit(nothing, kJobs, "alice"));
  EXPECT_GE(busy("alice"), kAll);
  std::uint64_t of_worker = 0;
  for (const WorkerSnapshot& worker : pool.snapshot()) of_worker += worker.busy_ns;
  EXPECT_GE(of_worker, static_cast<std::uint64_t>(kAll.count()));
  pool.stop();
}

TEST_F(TurnChargesTest, ABatchPaysForItsWaitForTheJournal) {
  wait_over(*submit(nothing, kJobs, "alice", std::make_unique<SlowJournal>(kEach)));
  EXPECT_GE(busy("alice"), kAll);
}

// However short its turns are: else a tenant with many of them would have most of the worker for
// little.
TEST_F(TurnChargesTest, TurnsThatFollowEachOtherAreChargedWithoutAGap) {
  Nanoseconds first{}, last{};
  Handler& note = handler([&](JobContext&, std::string_view) {
    last = steady_now();
    if (first.count() == 0) first = last;
  });
  wait_over(*submit(note, 10'000, "mallory"));
  EXPECT_GE(busy("mallory"), last - first);
}

TEST_F(TurnChargesTest, AWorkerThatIsIdleChargesNothing) {
  // Whether no more is charged for a batch than the time since it came, after a time without work.
  const auto charges_work_alone = [&] {
    const Nanoseconds before = busy("alice");
    const Nanoseconds idle_since = steady_now();
    wait_until([&] { return steady_now() - idle_since > 50ms; }, "the worker has been idle");
    const Nanoseconds came = steady_now();
    wait_over(*submit(nothing, 1, "alice"));
    return busy("alice") - before <= steady_now() - came;
  };
  // Again, if the worker had just looked at the clock, to look for work, and was held up then: what
  // it finds is charged from there.
  for (const char* turn : {"the first", "the second"}) {
    bool does = false;
    for (int tries = 0; tries < 10 && !does; ++tries) does = charges_work_alone();
    EXPECT_TRUE(does) << turn;
  }
}

}  // namespace
}  // namespace locksley
