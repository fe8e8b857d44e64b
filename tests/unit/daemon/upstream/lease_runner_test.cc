// Leases as batches of a lane with a pool.
#include "daemon/upstream/lease_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "core/lane/external_executor.h"
#include "core/lane/lane_groups.h"
#include "core/lane/lane_view.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

using locksley::testing::wait_until;
using ::testing::ElementsAre;

// What a runner reports, decoded.
class Ledger final : public LeaseSink {
 public:
  void settle(LeaseKey lease, JobStatus status, std::uint64_t first, std::uint64_t count,
              std::string outputs) override {
    EXPECT_FALSE(over.contains(lease));
    ++runs;
    std::string_view rest = outputs;
    for (std::uint64_t i = first; i < first + count; ++i) {
      ASSERT_TRUE(rest.starts_with('$'));
      const std::size_t line = rest.find("\r\n");
      const std::size_t size = std::stoul(std::string(rest.substr(1, line - 1)));
      EXPECT_TRUE(
          results[lease].emplace(i, std::pair(status, std::string(rest.substr(line + 2, size)))).second)
          << "job " << i << " twice";
      rest.remove_prefix(line + 2 + size + 2);
    }
    EXPECT_TRUE(rest.empty());
  }
  void ended(LeaseKey lease) override { over.insert(lease); }
  bool try_send_news(LeaseKey, std::uint64_t index, const JobNews& news) override {
    if (hears) said.push_back(news.words(index));
    return hears;
  }
  void keep_last_news(LeaseKey, std::uint64_t index, const JobNews& news) override {
    last.push_back(news.words(index));
  }

  std::vector<std::vector<std::string>> said, last;
  bool hears = true;

  std::map<LeaseKey, std::map<std::uint64_t, std::pair<JobStatus, std::string>>> results;
  std::set<LeaseKey> over;
  int runs = 0;
};

class LeaseRunnerTest : public locksley::testing::PoolFixture {
 protected:
  // The name of PoolFixture's handlers.
  static constexpr const char* kHandler = "test";

  void serve(NativeHandler run, ResultAccount* results = nullptr) {
    const ThreadRoleScope role(kUpstreamThread);
    last_handler = &handler(std::move(run));
    runner = std::make_unique<LeaseRunner>(
        lane, std::vector<LeaseHandler>{{.handler = last_handler}}, use, results, [this] { ++wakes; },
        no_log());
  }
  void TearDown() override {
    PoolFixture::TearDown();
    lane.detach_all();
  }
  static std::shared_ptr<spdlog::logger> no_log() {
    return std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::null_sink_mt>());
  }
  static LeasedJobs jobs(std::uint64_t low, std::uint64_t high) {
    LeasedJobs leased;
    leased.handler = kHandler;
    leased.range = {low, high};
    leased.id = "b7";
    leased.tenant = "alice";
    leased.attempt = 3;
    leased.payloads = std::make_unique<RangePayloads>(1'000);
    return leased;
  }
  bool begin(LeaseKey key, LeasedJobs leased) {
    const ThreadRoleScope role(kUpstreamThread);
    return runner->begin(key, std::move(leased));
  }
  void take_until(LeaseKey key) {
    wait_until(
        [&] {
          const ThreadRoleScope role(kUpstreamThread);
          runner->take(ledger);
          return ledger.over.contains(key);
        },
        "the lease has ended");
  }

  std::atomic<int> wakes{0};
  Ledger ledger;
  Handler* last_handler = nullptr;
  HandlerUse use;
  std::unique_ptr<LeaseRunner> runner;
};

// In a lane of processes, whose executor is moved by the test.
class LeaseOfProcessesTest : public LeaseRunnerTest {
 protected:
  void TearDown() override {
    LeaseRunnerTest::TearDown();
    processes.detach_all();
  }

  Lane processes{"processes", FairRing::Options{.parallelism = 1}};
  ExternalExecutor executor{processes};
  Handler& program = handler([](JobContext&, std::string_view) {});
  LeaseRunner leases{processes, {{.handler = &program}}, use, nullptr, [] {}, no_log()};
};

TEST_F(LeaseRunnerTest, JobsHaveTheIndexesOfTheUpstreamsBatch) {
  serve([](JobContext& context, std::string_view payload) {
    context.write(std::string(context.batch_id()) + "/" + std::to_string(context.index()) + " " +
                  std::string(context.tenant()) + " " + std::to_string(context.attempt()) + " " +
                  std::string(payload));
  });
  ASSERT_TRUE(begin(1, jobs(500, 503)));
  take_until(1);
  const auto result = [](const char* text) { return std::pair(JobStatus::kOk, std::string(text)); };
  EXPECT_THAT(ledger.results[1], ElementsAre(std::pair(500, result("b7/500 alice 3 1500")),
                                             std::pair(501, result("b7/501 alice 3 1501")),
                                             std::pair(502, result("b7/502 alice 3 1502"))));
}

TEST_F(LeaseRunnerTest, TheUpstreamThreadIsWokenForResultsAndNotForTheStart) {
  std::atomic<int> wakes_before{-1};
  serve([&](JobContext& context, std::string_view) {
    wakes_before = wakes.load();
    context.write("yes");
  });
  ASSERT_TRUE(begin(1, jobs(0, 1)));
  wait_until([&] { return wakes.load() == 1; }, "the result is told");
  take_until(1);
  EXPECT_EQ(wakes_before, 0);
}

TEST_F(LeaseRunnerTest, ManyJobsAreSettledInFewRuns) {
  serve([](JobContext& context, std::string_view payload) { context.write(payload); });
  ASSERT_TRUE(begin(1, jobs(0, 200'000)));
  // Taken together: how many runs they are otherwise depends on how often the results are looked at
  // meanwhile.
  const auto has_ended = [&] {
    const RingSnapshot ring = lane.view().snapshot(0);
    return ring.queued == 0 && ring.claimed == 0 && ring.executors == 0;
  };
  wait_until(has_ended, "all jobs have ended");
  take_until(1);
  EXPECT_EQ(ledger.results[1].size(), 200'000U);
  EXPECT_EQ(ledger.results[1].at(199'999).second, "200999");
  EXPECT_LT(ledger.runs, 2'000);
}

TEST_F(LeaseRunnerTest, AnotherStatusBeginsAnotherRun) {
  serve([](JobContext& context, std::string_view) {
    context.index() == 1 ? context.fail("no") : context.write("yes");
  });
  ASSERT_TRUE(begin(1, jobs(0, 3)));
  take_until(1);
  EXPECT_EQ(ledger.results[1].at(1), std::pair(JobStatus::kError, std::string("no")));
  EXPECT_EQ(ledger.results[1].at(2), std::pair(JobStatus::kOk, std::string("yes")));
}

TEST_F(LeaseRunnerTest, ALeaseTakesOneWorkerAtATime) {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  serve([&](JobContext& context, std::string_view) {
    const int now = ++running;
    if (int seen = most.load(); now > seen) most.compare_exchange_strong(seen, now);
    context.sleep_for(std::chrono::milliseconds(1));
    --running;
  });
  ASSERT_TRUE(begin(1, jobs(0, 40)));
  take_until(1);
  EXPECT_EQ(most, 1);
}

TEST_F(LeaseRunnerTest, WhatHasNotStartedIsWithdrawnFromTheBackAndDoesNotRun) {
  std::atomic<bool> goes_on{false};
  std::atomic<std::uint64_t> highest{0};
  serve([&](JobContext& context, std::string_view) {
    if (context.index() > highest) highest = context.index();
    while (!goes_on && !context.should_stop()) std::this_thread::yield();
  });
  ASSERT_TRUE(begin(1, jobs(100, 200)));
  std::uint64_t from = 0;
  {
    const ThreadRoleScope role(kUpstreamThread);
    wait_until([&] { return highest.load() == 100; }, "the first job runs");
    EXPECT_GT(runner->next(1), 100U);
    from = runner->withdraw(1, 150);
    EXPECT_EQ(from, 150U);
    from = runner->withdraw(1, 100);
    EXPECT_GT(from, 100U);
    EXPECT_LT(from, 150U);
    EXPECT_GE(runner->withdraw(1, 100), from) << "there is no more to withdraw";
  }
  goes_on = true;
  take_until(1);
  EXPECT_EQ(ledger.results[1].size(), from - 100);
  EXPECT_EQ(highest, from - 1);
}

TEST_F(LeaseRunnerTest, ALeaseOfWhichEverythingIsWithdrawnEnds) {
  std::atomic<bool> goes_on{false};
  serve([&](JobContext& context, std::string_view) {
    while (!goes_on && !context.should_stop()) std::this_thread::yield();
  });
  ASSERT_TRUE(begin(1, jobs(0, 1)));
  ASSERT_TRUE(begin(2, jobs(0, 1)));
  wait_until(
      [&] {
        const ThreadRoleScope role(kUpstreamThread);
        return runner->next(1) == 1 && runner->next(2) == 1;
      },
      "both workers are busy");
  ASSERT_TRUE(begin(3, jobs(10, 20)));
  {
    const ThreadRoleScope role(kUpstreamThread);
    EXPECT_EQ(runner->withdraw(3, 10), 10U);
  }
  take_until(3);
  EXPECT_TRUE(ledger.results[3].empty());
  goes_on = true;
  take_until(1);
  take_until(2);
}

TEST_F(LeaseRunnerTest, AStoppedLeaseReportsNoCancelledJob) {
  std::atomic<bool> has_begun{false};
  serve([&](JobContext& context, std::string_view) {
    if (context.index() == 0) return context.write("done");
    has_begun = true;
    while (!context.should_stop()) std::this_thread::yield();
    context.give_up();
  });
  ASSERT_TRUE(begin(1, jobs(0, 10)));
  wait_until([&] { return has_begun.load(); }, "the second job runs");
  {
    const ThreadRoleScope role(kUpstreamThread);
    runner->stop(1);
  }
  take_until(1);
  EXPECT_THAT(ledger.results[1], ElementsAre(std::pair(0, std::pair(JobStatus::kOk, std::string("done")))));
}

// Also where nothing can claim again what an executor gives back.
TEST_F(LeaseOfProcessesTest, AFinishedLeaseEndsWithWhatRunsAlthoughItsExecutorHasClaimedMore) {
  const ThreadRoleScope role(kUpstreamThread);
  ASSERT_TRUE(leases.begin(1, jobs(500, 503)));
  ASSERT_TRUE(executor.begin_turn(3, 1'000));
  ASSERT_TRUE(executor.start_job());
  leases.finish(1);
  EXPECT_FALSE(executor.start_job()) << "no more jobs of it start";
  leases.take(ledger);
  EXPECT_FALSE(ledger.over.contains(1));
  EXPECT_FALSE(use.is_at_rest(program));
  executor.end_job(JobStatus::kOk, "done");
  executor.end_turn();
  leases.take(ledger);
  EXPECT_TRUE(ledger.over.contains(1));
  EXPECT_THAT(ledger.results[1], ElementsAre(std::pair(500, std::pair(JobStatus::kOk, std::string("done")))));
  EXPECT_TRUE(use.is_at_rest(program));
}

TEST_F(LeaseRunnerTest, AHandlerThatIsNotThereIsRefused) {
  serve([](JobContext&, std::string_view) {});
  LeasedJobs leased = jobs(0, 1);
  leased.handler = "other";
  EXPECT_FALSE(begin(1, std::move(leased)));
}

TEST_F(LeaseRunnerTest, AHeldHandlerIsRefusedAndIsAtRestWhenItsLeasesHaveEnded) {
  std::atomic<bool> goes_on{false};
  serve([&](JobContext& context, std::string_view) {
    while (!goes_on && !context.should_stop()) std::this_thread::yield();
  });
  Handler& held = *last_handler;
  ASSERT_TRUE(begin(1, jobs(0, 1)));
  use.hold(held);
  EXPECT_FALSE(begin(2, jobs(1, 2)));
  EXPECT_FALSE(use.is_at_rest(held));
  goes_on = true;
  take_until(1);
  EXPECT_TRUE(use.is_at_rest(held));
  use.release(held);
  ASSERT_TRUE(begin(3, jobs(1, 2)));
  take_until(3);
}

TEST_F(LeaseRunnerTest, WhileResultsFillTheirAccountNoJobStarts) {
  ResultAccount account;
  account.set_limit(1);
  account.on_change([this] { lane.groups().reopen_tenants(); });
  std::atomic<int> started{0};
  serve(
      [&](JobContext& context, std::string_view) {
        ++started;
        context.write(std::string(100, 'x'));
      },
      &account);
  account.charge(10);
  ASSERT_TRUE(begin(1, jobs(0, 3)));
  locksley::testing::wait_until([&] { return !lane.hints().has_work(); }, "the lane passes over the lease");
  EXPECT_EQ(started, 0);
  account.set_limit(1'000'000);
  lane.groups().reopen_tenants();
  take_until(1);
  EXPECT_EQ(started, 3);
}

TEST_F(LeaseRunnerTest, TheEndOfALeaseWakesTheThreadAtOnce) {
  serve([](JobContext&, std::string_view) {});
  ASSERT_TRUE(begin(1, jobs(0, 1)));
  wait_until([&] { return wakes.load() > 0; }, "the upstream thread is woken");
  take_until(1);
}

TEST_F(LeaseOfProcessesTest, JobsWhoseProgramIsStillStartingHaveNotBegun) {
  const ThreadRoleScope role(kUpstreamThread);
  ASSERT_TRUE(leases.begin(1, jobs(500, 503)));
  ASSERT_TRUE(executor.begin_turn(1, 1'000));
  EXPECT_EQ(leases.next(1), 501U);
  executor.set_starting(true);
  EXPECT_EQ(leases.next(1), 500U);
  executor.set_starting(false);
  EXPECT_EQ(leases.next(1), 501U);
  executor.end_turn();
  EXPECT_EQ(leases.next(1), 500U);
  leases.abandon();
}

}  // namespace
}  // namespace locksley::daemon
