#include "daemon/workers/state/cut_planner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane_gates.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;

// Workers with leases of one lane, without a link: the test does what a link does with the leases
// and with the orders.
class CutPlannerTest : public ::testing::Test {
 protected:
  CutPlannerTest() {
    other_gate_ = lane_.gates().add({}).value();
    for (const GateId gate : {GateId{0}, other_gate_}) lane_.gates().set_remote(gate, true);
    lane_.set_remote_parallelism(16);
  }

  std::shared_ptr<Batch> submit(std::uint64_t jobs, BatchOptions options = {}) {
    auto batch = std::make_shared<Batch>(std::move(options), handler_, std::make_unique<RangePayloads>(0));
    lane_.submit(batch, jobs, /*open=*/false);
    batches_.push_back(batch);
    return batch;
  }
  // A worker of the user that serves both gates. Without PUSH it takes no orders before its first
  // BEAT.
  RemoteWorker& join(std::uint32_t slots, const std::string& user = "user", bool wants_pushes = true) {
    const std::uint64_t id = workers_.size() + 1;
    JoinCommand command;
    command.slots = slots;
    command.wants_pushes = wants_pushes;
    RemoteWorker& worker =
        workers_.try_emplace(id, id, command, user, accounts_.of(user), kLeaseTime).first->second;
    worker.lanes = {{.lane = &lane_, .gates = GateSet(0)}};
    worker.lanes.front().gates.add(other_gate_);
    return worker;
  }
  // The worker has a lease of these jobs of the batch.
  OutLease& lease(RemoteWorker& worker, Batch& batch, IndexRange jobs, std::uint32_t slot = 0,
                  std::uint32_t width = 1) {
    auto out = std::make_unique<OutLease>(lane_, buffers_);
    EXPECT_TRUE(out->lease.reclaim(batch, jobs, /*attempt=*/1, width, losses_));
    OutLease& added = *out;
    added.number = added.occupation.name = ++last_lease_;
    added.reported.leased(added.lease.range());
    worker.slots.occupy(added.occupation, slot, width, now_);
    worker.leases.emplace(added.number, std::move(out));
    worker.begin_leases(slot, width, now_);
    return added;
  }
  // The same, of a batch of its own.
  OutLease& lease_of(RemoteWorker& worker, std::uint64_t jobs, BatchOptions options = {}) {
    return lease(worker, *submit(jobs, std::move(options)), {0, jobs});
  }
  // A CLAIM of the worker waits, perhaps for this slot.
  void wait(RemoteWorker& worker, std::optional<std::uint32_t> slot = std::nullopt) {
    worker.waiting = WaitingClaim{.claim = {}, .lanes = {}, .order = ++last_claim_};
    worker.waiting->claim.slot = slot;
    waiting_.add(worker, GateSet(0));
  }
  std::vector<CutPlanner::Cut> search() { return planner_.for_idle_workers(lane_, waiting_, now_); }
  void order(const CutPlanner::Cut& cut) {
    cut.out->orders.cut = {.at = cut.at, .planned = now_, .is_for_idle_worker = true, .told = now_};
  }

  static constexpr Nanoseconds kLeaseTime = 10s;
  static constexpr std::uint64_t kMostBytes = 1'000;

  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{.quantum = 1ms, .parallelism = 1}};
  GateId other_gate_ = 0;
  LossCounts losses_{3};
  LeaseBuffers buffers_;
  std::vector<std::shared_ptr<Batch>> batches_;
  WorkerAccounts accounts_{WorkerUse{.leased_bytes = kMostBytes}};
  CutPlanner::Workers workers_;
  WaitingClaims waiting_;
  Nanoseconds now_ = 1000s;
  CutPlanner planner_{workers_, accounts_, now_};
  std::uint64_t last_lease_ = 0;
  std::uint64_t last_claim_ = 0;
};

// ---- For idle workers ----

TEST_F(CutPlannerTest, TheLeaseThatWouldEndLastIsCutInTheMiddle) {
  lease_of(join(1), 20);
  OutLease& longest = lease_of(join(1), 100);
  lease_of(join(1), 50);
  wait(join(1));
  now_ += 1s;
  const auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].out, &longest);
  EXPECT_EQ(cuts[0].worker->find(longest.number), &longest);
  EXPECT_EQ(cuts[0].at, 50U) << "job 0 runs, and 99 have not started";
}

TEST_F(CutPlannerTest, ThePaceCountsAndNotTheNumberOfJobs) {
  OutLease& fast = lease_of(join(1), 100);
  now_ += 9s;
  const std::vector<std::string_view> outputs(90, "out");
  EXPECT_EQ(fast.lease.end_jobs(JobStatus::kOk, 0, outputs, losses_), 90U);
  OutLease& slow = lease_of(join(1), 8);
  wait(join(1));
  now_ += 1s;  // each of the ten jobs left takes 0.1 s, each of the eight 1 s
  const auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].out, &slow);
}

TEST_F(CutPlannerTest, EachIdleWorkerGetsOneCutAndOrdersUnderWayCount) {
  for (int i = 0; i < 4; ++i) lease_of(join(1), 100);
  for (int i = 0; i < 3; ++i) wait(join(1));
  now_ += 1s;
  const auto first = search();
  ASSERT_EQ(first.size(), 3U);
  order(first[0]);
  order(first[1]);
  const auto second = search();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_NE(second[0].out, first[0].out);
  EXPECT_NE(second[0].out, first[1].out);
  order(second[0]);
  EXPECT_TRUE(search().empty());
}

TEST_F(CutPlannerTest, NothingIsCutWhileJobsAreQueuedOrNoSlotIsIdle) {
  lease_of(join(1), 100);
  RemoteWorker& busy = join(1);
  lease_of(busy, 100);
  wait(busy);
  now_ += 1s;
  EXPECT_TRUE(search().empty()) << "it asks for its next lease early";
  wait(join(1));
  EXPECT_EQ(search().size(), 1U);
  submit(1);
  EXPECT_TRUE(search().empty()) << "there is a job for it";
}

TEST_F(CutPlannerTest, ASlotThatTheClaimDoesNotNameIsIdleForAWorkerWithPushesOnly) {
  lease_of(join(1), 100);
  RemoteWorker& half_busy = join(2);
  lease_of(half_busy, 1);
  wait(half_busy, 0);
  now_ += 1s;
  EXPECT_EQ(search().size(), 1U);
  waiting_.remove(half_busy, GateSet(0));
  RemoteWorker& polls = join(2, "user", /*wants_pushes=*/false);
  lease_of(polls, 1);
  wait(polls, 0);
  EXPECT_TRUE(search().empty());
}

TEST_F(CutPlannerTest, OnlyWhatTheIdleWorkerCouldServeIsCut) {
  BatchOptions elsewhere;
  elsewhere.gate = other_gate_;
  lease_of(join(1), 100, elsewhere);
  OutLease& here = lease_of(join(1), 20);
  wait(join(1));
  now_ += 1s;
  const auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].out, &here);
}

TEST_F(CutPlannerTest, AUserWithoutRoomForALeaseGetsNone) {
  lease_of(join(1), 100);
  RemoteWorker& full = join(1, "full");
  wait(full);
  now_ += 1s;
  EXPECT_EQ(search().size(), 1U);
  full.account.charge(&WorkerUse::leased_bytes, kMostBytes);
  EXPECT_TRUE(search().empty());
}

TEST_F(CutPlannerTest, ALeaseThatEndsSoonIsNotCut) {
  OutLease& out = lease_of(join(1), 4);
  wait(join(1));
  RemoteWorker& worker = workers_.begin()->second;
  now_ += worker.time_of_cut() / 4;  // the first of its four jobs has run for a quarter of this
  EXPECT_TRUE(search().empty());
  now_ += 1ms;
  const auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].out, &out);
}

TEST_F(CutPlannerTest, ABatchWithoutAPlaceForOneMoreExecutorIsNotCut) {
  BatchOptions one_slot;
  one_slot.slots = 1;
  lease_of(join(1), 100, one_slot);
  OutLease& other = lease_of(join(1), 20);
  wait(join(1));
  now_ += 1s;
  const auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].out, &other);
}

TEST_F(CutPlannerTest, AWorkerThatOwesAnAnswerIsPassedOverWithAllItsLeases) {
  RemoteWorker& deaf = join(2);
  const auto batch = submit(200);
  OutLease& asked = lease(deaf, *batch, {0, 100}, 0);
  lease(deaf, *batch, {100, 200}, 1);
  OutLease& other = lease_of(join(1), 20);
  wait(join(1));
  now_ += 1s;
  order({&deaf, &asked, 50});
  EXPECT_TRUE(search().empty()) << "its answer may be under way";
  now_ = deaf.answer_due(asked);
  auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].out, &other);

  now_ = asked.orders.cut->planned + kLeaseTime;
  cuts = search();
  EXPECT_FALSE(asked.orders.cut.has_value()) << "its order has stood for the length of a lease";
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].worker, &deaf);
}

TEST_F(CutPlannerTest, ALeaseThatGoesWholeGoesToAnotherMachineThatIsNotHeldUpItself) {
  RemoteWorker& held_up = join(2);
  OutLease& out = lease_of(held_up, 1);
  (void)out.reported.beaten(0);
  wait(held_up);
  now_ += 1s;
  EXPECT_TRUE(search().empty()) << "its other slot would not run it either";
  RemoteWorker& other = join(1);
  wait(other);
  other.held_up = now_;
  EXPECT_TRUE(search().empty());
  now_ += kLeaseTime;
  const auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].at, 0U);
}

TEST_F(CutPlannerTest, TheLastJobGoesOnlyToASlotThatRunsItAtOnce) {
  lease_of(join(1), 2);
  RemoteWorker& narrow = join(2);
  lease_of(narrow, 1);
  wait(narrow, 0);
  now_ += 1s;
  EXPECT_TRUE(search().empty()) << "it would wait behind another lease";
  wait(join(1));
  const auto cuts = search();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].at, 1U);
}

TEST_F(CutPlannerTest, TheNextSearchIsTheLaterTheMoreThereIsToVisit) {
  EXPECT_EQ(planner_.next_search(), now_);
  planner_.begin_search(0, now_);
  const Nanoseconds least = planner_.next_search() - now_;
  join(1).account.charge(&WorkerUse::slots, 5'000);
  planner_.begin_search(1'000, now_);
  EXPECT_EQ(planner_.next_search() - now_, least + 1'051us);
}

TEST_F(CutPlannerTest, ASearchForWhatHasHappenedNeedNotWaitForTheNextOneThatIsDue) {
  planner_.begin_search(10, now_);
  EXPECT_FALSE(planner_.may_search(now_ + 1009us));
  EXPECT_TRUE(planner_.may_search(now_ + 1010us));
  EXPECT_GT(planner_.next_search(), now_ + 1010us);
}

// ---- For batches that wait ----

class CutForBatchesTest : public CutPlannerTest {
 protected:
  // A lease of 100 jobs on two slots has lasted for a second.
  CutForBatchesTest() : batch_(submit(200)), worker_(join(2)), out_(lease(worker_, *batch_, {0, 100}, 0, 2)) {
    now_ += 1s;
  }
  std::vector<CutPlanner::Cut> cuts() { return CutPlanner::for_waiting_batches(worker_, out_, now_); }

  const std::shared_ptr<Batch> batch_;
  RemoteWorker& worker_;
  OutLease& out_;
};

TEST_F(CutForBatchesTest, ItKeepsOneJobForEachSlotWhileAnotherBatchIsQueued) {
  EXPECT_TRUE(cuts().empty()) << "only jobs of its own batch wait";
  submit(10);
  const auto found = cuts();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].worker, &worker_);
  EXPECT_EQ(found[0].out, &out_);
  EXPECT_EQ(found[0].at, 2U);
}

TEST_F(CutForBatchesTest, SoDoesALeaseOfTheSameBatchBehindIt) {
  OutLease& behind = lease(worker_, *batch_, {100, 200}, 0, 2);
  submit(10);
  const auto found = cuts();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].out, &out_);
  EXPECT_EQ(found[1].out, &behind) << "once, although it is behind on both slots";
  EXPECT_EQ(found[1].at, 102U);
}

TEST_F(CutForBatchesTest, ALeaseOfAnotherBatchBehindItWaitsAndIsNotCut) {
  lease(worker_, *submit(50), {0, 50}, 0, 1);
  const auto found = cuts();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].out, &out_);
}

TEST_F(CutForBatchesTest, ItIsAskedOnceInTheLengthOfALease) {
  submit(10);
  out_.orders.shortened = now_;
  now_ += kLeaseTime - 1ns;
  EXPECT_TRUE(cuts().empty());
  now_ += 1ns;
  EXPECT_EQ(cuts().size(), 1U);
  out_.orders.cut = {.at = 2, .planned = now_, .is_for_idle_worker = true};
  EXPECT_TRUE(cuts().empty()) << "an order waits for its answer";
}

TEST_F(CutForBatchesTest, NoLeaseIsCutBeforeTwiceItsQuantum) {
  submit(10);
  now_ -= 1s;
  now_ += 2 * worker_.quantum();
  EXPECT_TRUE(cuts().empty());
  now_ += 1ns;
  EXPECT_EQ(cuts().size(), 1U);
}

}  // namespace
}  // namespace locksley::daemon
