// What the leases of remote workers are charged, and which of two leases on a slot pays.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "core/lane/lane_groups.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

using WorkerLinkChargesTest = WorkerLinkFixture;

TEST_F(WorkerLinkChargesTest, ChargesAddUpToTheTimeOfOccupiedSlots) {
  const WorkerLink::Id id = joined(2);
  host.submit("echo", 10);
  const Granted first = claim(id, "SLOT 0 JOBS 1");
  now += 2s;
  const Granted second = claim(id, "SLOT 0 JOBS 1");
  now += 3s;
  say(id, "BEAT");
  settle_all(id, first);
  EXPECT_EQ(busy(), 5s);
  now += 1s;
  settle_all(id, second);
  EXPECT_EQ(busy(), 6s) << "the second from the end of the first";
}

// A lease that the worker has had in front for 7 s when it is told to give it back.
class HeldUpLeaseTest : public WorkerLinkFixture {
 protected:
  // `next`: that of its BEAT; none: it sends none. `first`: from where the worker yields.
  void begin(std::optional<int> next) {
    batch = host.submit("echo", 1);
    lease = claim(id).lease;
    pass(3s);
    if (next) say(id, "BEAT " + lease + " " + std::to_string(*next));
    pass(4s);
    host.lane_of("echo")->pause(*batch);
    say(id, "BEAT");
  }
  WorkerLink::Id id = joined(1, " LEASE 3600000");
  std::shared_ptr<Batch> batch;
  std::string lease;
};

TEST_F(HeldUpLeaseTest, IsChargedNothingIfTheWorkerHasSaidThatItHasBegunNoJobOfIt) {
  begin(0);
  EXPECT_EQ(say(id, "YIELD " + lease + " 0"), ":1");
  EXPECT_EQ(busy(), 0s);
}

TEST_F(HeldUpLeaseTest, IsChargedForItsTimeIfTheWorkerHasSaidThatAJobHasBegun) {
  begin(1);
  EXPECT_EQ(say(id, "YIELD " + lease + " 0"), ":1");
  EXPECT_EQ(busy(), 7s);
}

TEST_F(HeldUpLeaseTest, IsChargedForItsTimeIfTheWorkerHasSaidNothing) {
  begin({});
  EXPECT_EQ(say(id, "YIELD " + lease + " 0"), ":1");
  EXPECT_EQ(busy(), 7s);
}

// Else a worker that keeps jobs of one batch and gives them back, again and again, would get no job
// of another batch.
TEST_F(HeldUpLeaseTest, IsChargedForItsTimeIfItGoesBackWithoutAnOrder) {
  batch = host.submit("echo", 1);
  lease = claim(id).lease;
  pass(3s);
  say(id, "BEAT " + lease + " 0");
  EXPECT_EQ(say(id, "YIELD " + lease + " 0"), ":1");
  EXPECT_EQ(busy(), 3s);
}

// Two tenants' batches on one slot: b's lease is behind that of a.
class SecondLeaseTest : public WorkerLinkFixture {
 protected:
  void begin(std::uint64_t jobs_behind = 1) {
    BatchOptions options;
    options.tenant = "a";
    host.submit("echo", 1, options);
    options.tenant = "b";
    behind = host.submit("echo", 100, options);
    first = reclaimed(id, std::to_string(host.last_batch - 1) + " 1 0 1");
    second = reclaimed(id, std::to_string(host.last_batch) + " 1 0 " + std::to_string(jobs_behind));
  }
  // The same by CLAIMs: of RECLAIMed jobs the link knows that they have begun.
  void claim_both() {
    BatchOptions options;
    options.tenant = "a";
    host.submit("echo", 1, options);
    first = claim(id).lease;
    options.tenant = "b";
    behind = host.submit("echo", 1, options);
    second = claim(id).lease;
  }
  Nanoseconds busy_of(const std::string& tenant) {
    const RingSnapshot snapshot = ring();
    return std::ranges::find(snapshot.tenants, tenant, &TenantView::tenant)->busy;
  }
  WorkerLink::Id id = joined(1, " LEASE 3600000");
  std::shared_ptr<Batch> behind;
  std::string first, second;
};

TEST_F(SecondLeaseTest, ABatchThatIsPausedDoesNotPayForTheJobInFront) {
  begin();
  pass(540s);
  host.lane_of("echo")->pause(*behind);
  EXPECT_EQ(say(id, "BEAT"), "*1 *3 $3 CUT $18 " + second + " :0");
  EXPECT_EQ(say(id, "YIELD " + second + " 0"), ":1");
  pass(60s);
  say(id, "SETTLE " + first + " ok 0 x");
  EXPECT_EQ(busy_of("a"), 600s);
  EXPECT_EQ(busy_of("b"), 0s);
  host.lane_of("echo")->resume(*behind);
  const Granted trial = claim(id);
  EXPECT_EQ(trial.count, 1U) << "what its jobs cost is unknown";
  now += 1ms;
  settle_all(id, trial);
  EXPECT_GT(claim(id).count, 1U) << "the wait is not part of what a job costs";
}

TEST_F(SecondLeaseTest, ItPaysOnceTheWorkerHasSaidThatItHasBegun) {
  Nanoseconds paid{};
  for (const std::string begins : {"BEAT * 1", "NOTE * 0 PROGRESS 5", "SETTLE * ok 0 x"}) {
    begin();
    now += 3s;
    std::string words = begins;
    say(id, words.replace(words.find('*'), 1, second));
    say(id, "YIELD " + second);
    EXPECT_EQ(busy_of("b"), paid += 3s) << begins;
    say(id, "SETTLE " + first + " ok 0 x");
  }
}

TEST_F(SecondLeaseTest, AWorkerThatRunsItFirstChargesIt) {
  begin(/*jobs_behind=*/2);
  pass(3s);
  say(id, "SETTLE " + second + " ok 0 x");
  say(id, "YIELD " + first);
  EXPECT_EQ(busy_of("a"), 0s);
  say(id, "SETTLE " + second + " ok 1 x");
  EXPECT_EQ(busy_of("b"), 3s);
}

TEST_F(SecondLeaseTest, ItPaysOnceItsJobHasRunAndTheOtherWentBackWithoutAWord) {
  claim_both();
  for (int i = 0; i < 3; ++i) {
    pass(1s);
    say(id, "BEAT");
  }
  EXPECT_EQ(say(id, "YIELD " + first), ":1");
  say(id, "SETTLE " + second + " ok 0 x");
  EXPECT_EQ(busy_of("a"), 0s);
  EXPECT_EQ(busy_of("b"), 3s);
}

// A job that was to be stopped has run as far as is known: else a user could run jobs until they
// are cancelled for nothing.
TEST_F(SecondLeaseTest, WhoCancelsAJobThatRunsPaysForIt) {
  claim_both();
  pass(3s);
  host.lane_of("echo")->cancel(*host.batches.at(host.last_batch - 1), "enough");
  say(id, "YIELD " + first);
  say(id, "SETTLE " + second + " ok 0 x");
  EXPECT_EQ(busy_of("a"), 3s);
  EXPECT_EQ(busy_of("b"), 0s);
}

TEST_F(SecondLeaseTest, ABeatThatNamesBothChargesTheOneInFront) {
  begin();
  pass(3s);
  say(id, "BEAT " + second + " 1 " + first + " 1");
  pass(1s);
  say(id, "SETTLE " + second + " ok 0 x");
  EXPECT_EQ(busy_of("b"), 1s);
  say(id, "SETTLE " + first + " ok 0 x");
  EXPECT_EQ(busy_of("a"), 3s);
}

// Which job is shown, times out, and counts a loss, follows the job that the worker runs.
TEST_F(SecondLeaseTest, TheLeaseWhoseJobRunsIsInFrontUntilItIsOver) {
  claim_both();
  say(id, "BEAT " + second + " 1");
  const RemoteWorker& worker = link->workers().at(id);
  const auto shown = [&] {
    std::size_t jobs = 0;
    for (const auto& [number, out] : worker.leases) jobs += out->shown.size();
    return jobs;
  };
  EXPECT_EQ(shown(), 1U);
  EXPECT_TRUE(worker.leases.begin()->second->timeout.is_displaced());
  say(id, "SETTLE " + second + " ok 0 x");
  EXPECT_EQ(shown(), 1U) << "the other lease goes on";
  EXPECT_FALSE(worker.leases.begin()->second->timeout.is_displaced());
  EXPECT_EQ(worker.slots.in_front(worker.leases.begin()->second->occupation), 1U);
}

// One start in an hour.
class StartsOfLeasesTest : public WorkerLinkFixture {
 protected:
  StartsOfLeasesTest() {
    host.lane_of("echo")->groups().set_tenant_limits("default", {.start_interval = 1h});
    host.submit("echo", 10);
  }
  WorkerLink::Id id = joined(1);
};

TEST_F(StartsOfLeasesTest, AJobThatMayRunAndIsYieldedHasUsedItsStart) {
  const Granted lease = claim(id);
  ASSERT_EQ(lease.count, 1U);
  EXPECT_EQ(say(id, "YIELD " + lease.lease), ":1");
  EXPECT_FALSE(claim(id));
}

TEST_F(StartsOfLeasesTest, AJobThatIsLostHasUsedItsStart) {
  ASSERT_TRUE(claim(id));
  link->disconnect(id, now);
  EXPECT_FALSE(claim(joined(1)));
}

TEST_F(StartsOfLeasesTest, AJobThatIsYieldedBehindAnotherHasUsedNone) {
  const Nanoseconds began = steady_now();
  ASSERT_NE(reclaimed(id, "1 1 0 1"), "");
  const std::string behind = reclaimed(id, "1 1 1 2");
  EXPECT_EQ(say(id, "YIELD " + behind), ":1");
  const auto next = host.lane_of("echo")->end_waits(steady_now());
  ASSERT_TRUE(next);
  EXPECT_LT(*next - began, 90min) << "only the first job has used a start";
}

}  // namespace
}  // namespace locksley::daemon::test
