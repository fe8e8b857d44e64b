// Workers beside local executors in lanes that handlers share: gates, limits, holds, back-offs,
// notes.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/batch/batch_attempts.h"
#include "core/lane/external_executor.h"
#include "core/lane/lane_gates.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

using testing::Row;
using testing::rows_of;

constexpr std::size_t kAllBytes = ~std::size_t{0};

// `crop` shares the lane of `echo`.
class WorkerLinkLanesTest : public WorkerLinkFixture {
 protected:
  WorkerLinkLanesTest() { host.serve_beside("crop", "echo"); }

  WorkerLink::Id joined_for(const std::string& handlers, std::uint32_t slots = 2) {
    const WorkerLink::Id id = connect();
    EXPECT_EQ(say(id, "JOIN w SLOTS " + std::to_string(slots) + " HANDLERS " + handlers).front(), '*');
    return id;
  }
  GateId gate_of(const std::string& handler) { return host.place_of(handler).gate; }

  Lane& lane = *host.lane_of("echo");
};

TEST_F(WorkerLinkLanesTest, AWorkerGetsTheJobsOfItsHandlersWhateverElseTheLaneOwesMore) {
  const WorkerLink::Id crop = joined_for("crop");
  host.submit("echo", 10);
  EXPECT_FALSE(claim(crop));
  host.submit("crop", 10);
  EXPECT_EQ(claim(crop).batch, "2");
  const WorkerLink::Id both = joined_for("echo crop");
  EXPECT_EQ(parse(say(both, "CLAIM HANDLERS crop")).batch, "2");
  EXPECT_EQ(parse(say(both, "CLAIM HANDLERS echo")).batch, "1");
}

TEST_F(WorkerLinkLanesTest, ABlockedClaimIsServedAtItsGatesOnly) {
  const WorkerLink::Id echo = joined_for("echo"), crop = joined_for("crop");
  EXPECT_EQ(say(echo, "CLAIM BLOCK 1000"), "");
  EXPECT_EQ(say(crop, "CLAIM BLOCK 1000"), "");
  host.submit("crop", 1);
  link->wake(now);
  EXPECT_EQ(sent(echo), "");
  EXPECT_EQ(parse(sent(crop)).batch, "1");
}

// Counts what a lane says; outlives what is said: the lane is told last of the end of its batches.
struct Told : RemoteExecutors {
  int of_work = 0;
  int of_stops = 0;
  void lane_has_work() override { ++of_work; }
  void lane_has_stops() override { ++of_stops; }
};

TEST_F(WorkerLinkLanesTest, TheLaneIsToldOfWorkAndOfSlots) {
  Told told;
  int& woken = told.of_work;
  lane.set_remote(&told);
  host.submit("echo", 1);
  EXPECT_EQ(woken, 0) << "no CLAIM waits";
  const WorkerLink::Id id = joined_for("crop", 5);
  EXPECT_EQ(link->lanes().at(&lane).slots, 5U);
  EXPECT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  woken = 0;
  host.submit("echo", 1);
  EXPECT_EQ(woken, 0) << "of a handler that no worker serves";
  host.submit("crop", 1);
  EXPECT_EQ(woken, 1);
  link->wake(now);
  EXPECT_TRUE(parse(sent(id)));
  host.submit("crop", 1);
  EXPECT_EQ(woken, 1) << "the CLAIM is answered";
  link->disconnect(id, now);
  EXPECT_EQ(link->lanes().at(&lane).slots, 0U);
  EXPECT_TRUE(link->lanes().at(&lane).gates.empty());
  lane.set_remote(nullptr);
}

TEST_F(WorkerLinkLanesTest, TheLaneIsToldOfBatchesThatBeginNoMoreJobs) {
  Told told;
  lane.set_remote(&told);
  const auto batch = host.submit("echo", 1);
  lane.hold(*batch, Hold::kHandler);
  EXPECT_EQ(told.of_stops, 1);
  lane.cancel(*batch, "over");
  EXPECT_EQ(told.of_stops, 2);
  lane.set_remote(nullptr);
}

// A batch of one slot runs on this machine; the CLAIM of a worker is served when its turn there is
// over.
TEST_F(WorkerLinkLanesTest, TheEndOfALocalTurnWakesTheLink) {
  Told told;
  lane.set_remote(&told);
  const WorkerLink::Id id = joined_for("crop");
  BatchOptions options;
  options.slots = 1;
  host.submit("crop", 2, options);
  ExternalExecutor local(lane);
  ASSERT_TRUE(local.begin_turn(1, kAllBytes));
  EXPECT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  told.of_work = 0;
  ASSERT_TRUE(local.start_job());
  local.end_job(JobStatus::kOk, "x");
  local.end_turn();
  EXPECT_GT(told.of_work, 0);
  link->wake(now);
  EXPECT_EQ(parse(sent(id)).first, 1U);
  lane.set_remote(nullptr);
}

TEST_F(WorkerLinkLanesTest, ConcurrencyIsForLocalExecutorsAndMaxRunningForAll) {
  lane.gates().set_concurrency(gate_of("crop"), 1);
  lane.gates().set_max_running(gate_of("crop"), 3);
  const WorkerLink::Id id = joined_for("crop", 8);
  host.submit("crop", 100);
  ExternalExecutor local(lane), other(lane);
  ASSERT_TRUE(local.begin_turn(1, kAllBytes));
  EXPECT_FALSE(other.begin_turn(1, kAllBytes));
  EXPECT_TRUE(claim(id, "JOBS 1"));
  EXPECT_TRUE(claim(id, "JOBS 1"));
  EXPECT_FALSE(claim(id, "JOBS 1"));
  local.end_turn();
  EXPECT_TRUE(claim(id, "JOBS 1"));
  EXPECT_FALSE(local.begin_turn(1, kAllBytes));
}

TEST_F(WorkerLinkLanesTest, AfterARecoveryLocalExecutorsWaitToo) {
  restart({.has_recovered = true});
  const auto batch = host.submit("crop", 10);
  ExternalExecutor local(lane);
  EXPECT_FALSE(local.begin_turn(1, kAllBytes));
  EXPECT_EQ(link->next_timer(), now + 3s);
  const WorkerLink::Id id = joined_for("crop");
  EXPECT_FALSE(reclaimed(id, "1 1 0 5").empty());
  pass(3s);
  ASSERT_TRUE(local.begin_turn(1, kAllBytes));
  ASSERT_TRUE(local.start_job());
  local.end_job(JobStatus::kOk, "local");
  local.end_turn();
  EXPECT_EQ(rows_of(*batch), (std::vector<Row>{{5, JobStatus::kOk, "local"}}));
}

TEST_F(WorkerLinkLanesTest, AHandlerThatIsGoneIsNoLongerServed) {
  const WorkerLink::Id id = joined_for("echo crop"), waits = joined_for("crop");
  EXPECT_EQ(say(waits, "CLAIM BLOCK 1000"), "");
  auto crop = host.served.extract("crop");
  handlers_changed();
  EXPECT_EQ(sent(waits), "$-1");
  EXPECT_EQ(say(waits, "CLAIM BLOCK 1000"), "") << "it has joined, for nothing";
  EXPECT_EQ(say(id, "CLAIM HANDLERS crop"), "-NOHANDLER the worker has not joined for 'crop'");
  host.submit("echo", 1);
  EXPECT_TRUE(claim(id));
  EXPECT_EQ(link->lanes().at(&lane).gates.size(), 1U);
}

TEST_F(WorkerLinkLanesTest, AChangeOfHandlersReachesVeryManyWorkersAFewAtATime) {
  constexpr std::size_t kWorkers = 500;
  for (std::size_t i = 0; i < kWorkers; ++i) joined_for("echo crop");
  host.places_looked_up = 0;
  link->handlers_changed();
  EXPECT_EQ(host.places_looked_up, 0U);
  std::size_t calls = 0;
  for (bool is_done = false; !is_done; ++calls) {
    const std::size_t before = host.places_looked_up;
    is_done = link->follow_handlers(10, now);
    EXPECT_LE(host.places_looked_up - before, 2 * 10U) << "a name is looked up twice";
  }
  EXPECT_EQ(calls, kWorkers / 5);
  EXPECT_EQ(host.places_looked_up, 2 * 2 * kWorkers);
}

TEST_F(WorkerLinkLanesTest, AWorkerThatHasYetToFollowAChangeGetsNoJobsOfAHandlerThatIsGone) {
  const WorkerLink::Id asks = joined_for("echo crop"), waits = joined_for("crop");
  host.submit("crop", 1);
  EXPECT_TRUE(claim(asks, "HANDLERS crop"));
  EXPECT_EQ(say(waits, "CLAIM BLOCK 1000"), "");
  host.forbidden = "crop";
  link->handlers_changed();
  EXPECT_EQ(say(asks, "CLAIM HANDLERS crop"), "-NOHANDLER the worker has not joined for 'crop'");
  host.submit("crop", 1);
  link->wake(now);
  EXPECT_EQ(sent(waits), "$-1");
}

TEST_F(WorkerLinkLanesTest, AHandlerThatTheUserMayNoLongerServeIsNot) {
  const WorkerLink::Id id = joined_for("crop");
  host.forbidden = "crop";
  handlers_changed();
  host.submit("crop", 1);
  EXPECT_FALSE(claim(id));
}

TEST_F(WorkerLinkLanesTest, AHandlerThatIsBackIsServedAgain) {
  const WorkerLink::Id id = joined_for("echo crop"), waits = joined_for("crop"), other = joined_for("echo");
  auto crop = host.served.extract("crop");
  handlers_changed();
  handlers_changed();
  EXPECT_EQ(say(waits, "CLAIM BLOCK 1000"), "");
  host.served.insert(std::move(crop));
  host.forbidden = "crop";
  handlers_changed();
  EXPECT_EQ(say(id, "CLAIM HANDLERS crop"), "-NOHANDLER the worker has not joined for 'crop'");
  host.forbidden.clear();
  handlers_changed();
  EXPECT_EQ(sent(waits), "$-1") << "its wait was for nothing: it asks again";
  host.submit("crop", 3);
  EXPECT_TRUE(claim(id, "JOBS 1 HANDLERS crop"));
  EXPECT_TRUE(claim(waits, "JOBS 1"));
  EXPECT_FALSE(claim(other)) << "it has not joined for that";
}

TEST_F(WorkerLinkLanesTest, AHandlerThatComesAfterAPartialJoinIsServed) {
  auto crop = host.served.extract("crop");
  const WorkerLink::Id id = connect();
  EXPECT_EQ(say(id, "JOIN w SLOTS 2 PARTIAL HANDLERS crop crop none").find("-NOHANDLER"), 0U)
      << "one is needed";
  const std::string reply = say(id, "JOIN w SLOTS 2 PARTIAL HANDLERS crop echo crop");
  EXPECT_NE(reply.find("$10 not_served *1 $4 crop"), std::string::npos) << reply;
  EXPECT_EQ(say(id, "CLAIM HANDLERS crop"), "-NOHANDLER the worker has not joined for 'crop'");
  host.served.insert(std::move(crop));
  handlers_changed();
  host.submit("crop", 1);
  EXPECT_TRUE(claim(id, "HANDLERS crop"));
}

TEST_F(WorkerLinkLanesTest, AHandlerThatHasMovedIsServedWhereItIs) {
  const WorkerLink::Id id = joined_for("crop");
  host.served.at("crop")->place = {.lane = host.lane_of("resize"),
                                   .gate = host.lane_of("resize")->gates().add({}).value()};
  handlers_changed();
  host.submit("crop", 1);
  EXPECT_TRUE(claim(id));
  EXPECT_EQ(link->lanes().at(&lane).slots, 0U);
}

TEST_F(WorkerLinkLanesTest, ACrashPausesItsBatchOnly) {
  const WorkerLink::Id id = joined_for("crop", 8);
  host.submit("crop", 2);
  settle_all(id, claim(id, "JOBS 1"), "crashed");
  EXPECT_FALSE(claim(id));
  EXPECT_EQ(say(id, "CLAIM BLOCK 5000"), "");
  const auto due = link->next_timer();
  ASSERT_TRUE(due);
  EXPECT_LE(*due, now + RingWaits::kFirstBackoff);
  host.submit("crop", 1);
  link->wake(now);
  EXPECT_EQ(parse(sent(id)).batch, "2") << "the other batch goes on";
  EXPECT_EQ(say(id, "CLAIM BLOCK 5000"), "");
  now = *due;
  link->advance(now);
  EXPECT_EQ(parse(sent(id)).batch, "1");
}

TEST_F(WorkerLinkLanesTest, ACrashThatWasFollowedByAGoodJobPausesNothing) {
  const WorkerLink::Id id = joined_for("crop");
  host.submit("crop", 10);
  const std::string lease = reclaimed(id, "1 1 0 2");
  say(id, "SETTLE " + lease + " crashed 0 x");
  say(id, "SETTLE " + lease + " ok 1 x");
  EXPECT_TRUE(claim(id));
}

TEST_F(WorkerLinkLanesTest, AJobWithANoteIsLeasedAloneAndBringsIt) {
  const WorkerLink::Id id = joined_for("crop");
  host.submit("crop", 10);
  const std::string lease = reclaimed(id, "1 1 0 10");
  EXPECT_EQ(say(id, "NOTE " + lease + " 3 TEXT half"), "+OK");
  EXPECT_EQ(say(id, "NOTE " + lease + " 3 PROGRESS 90"), "+OK") << "which leaves the text as it is";
  EXPECT_EQ(say(id, "YIELD " + lease), ":10");
  const auto jobs_of = [&](const std::string& reply) {
    const Granted granted = parse(reply);
    return std::pair(granted.first, granted.count);
  };
  // The claims of a batch of unknown cost grow: 1, 4, and as many as there are.
  settle_all(id, claim(id));
  const Granted second = claim(id, "JOBS 5");
  EXPECT_EQ(std::pair(second.first, second.count), std::pair(1UL, 2UL)) << "up to the job with the note";
  settle_all(id, second);
  const std::string noted = say(id, "CLAIM JOBS 5");
  EXPECT_EQ(jobs_of(noted), std::pair(3UL, 1UL));
  EXPECT_EQ(noted.substr(noted.size() - 7), "$4 half");
  EXPECT_EQ(settle_all(id, parse(noted)), "*2 :1 :0");
  EXPECT_EQ(claim(id, "JOBS 5").first, 4U);
}

TEST_F(WorkerLinkLanesTest, ANoteReachesTheNextAttemptAfterALossAndAFailure) {
  const auto batch = host.submit("crop", 1);
  const WorkerLink::Id lost = joined_for("crop"), id = joined_for("crop");
  say(lost, "NOTE " + claim(lost).lease + " 0 TEXT half");
  link->disconnect(lost, now);
  for (int i = 0; i < 2; ++i) {
    const std::string reply = say(id, "CLAIM");
    EXPECT_TRUE(reply.ends_with(" $4 half")) << reply;
    settle_all(id, parse(reply), "error");
    EXPECT_EQ(lane.retry_failed(batch), 1U);
  }
  settle_all(id, claim(id));
  EXPECT_TRUE(batch->is_over());
}

TEST_F(WorkerLinkLanesTest, TheLastOfManyNotesReachesTheNextAttemptHoweverTheLeaseEnds) {
  const auto batch = host.submit("crop", 1);
  const WorkerLink::Id id = joined_for("crop");
  for (const std::string end : {"YIELD", "LEAVE"}) {
    const std::string lease = claim(id).lease;
    for (int i = 0; i < 5; ++i) say(id, "NOTE " + lease + " 0 TEXT " + end + std::to_string(i));
    say(id, end == "YIELD" ? end + " " + lease : end);
    EXPECT_EQ(batch->attempts().note(0), end + "4");
  }
}

// A worker that claims, and from then on only shows that it lives.
TEST_F(WorkerLinkLanesTest, ALeaseThatIsNeverSettledIsChargedAsItRuns) {
  const WorkerLink::Id id = joined_for("crop", 2);
  BatchOptions greedy, modest;
  greedy.tenant = "greedy";
  modest.tenant = "modest";
  host.submit("crop", 10, greedy);
  host.submit("crop", 10, modest);
  ASSERT_EQ(claim(id, "SLOT 0 JOBS 1").batch, "1");
  for (int i = 0; i < 10; ++i) {
    link->heard(id, now);
    pass(3s);
  }
  for (int i = 0; i < 5; ++i) {
    const Granted next = claim(id, "SLOT 1 JOBS 1");
    EXPECT_EQ(next.batch, "2");
    now += 1s;
    settle_all(id, next);
  }
}

TEST_F(WorkerLinkLanesTest, ABatchAtItsSlotsIsNotCut) {
  const WorkerLink::Id slow = connect("renderer", proto::Protocol::kResp3);
  say(slow, "JOIN p SLOTS 1 PUSH HANDLERS crop");
  BatchOptions options;
  options.slots = 1;
  host.submit("crop", 100, options);
  const std::string lease = reclaimed(slow, "1 1 0 100");
  pass(1s);
  say(slow, "SETTLE " + lease + " ok 0 x");
  const WorkerLink::Id idle = joined_for("crop");
  say(idle, "CLAIM BLOCK 60000");
  pass(20ms);
  EXPECT_EQ(link->stats().cut_orders, 0U) << "no other worker could run what it gives back";
}

TEST_F(WorkerLinkLanesTest, OnlyLeasesThatTheIdleWorkerServesAreCut) {
  const WorkerLink::Id slow = connect("renderer", proto::Protocol::kResp3);
  say(slow, "JOIN p SLOTS 1 PUSH HANDLERS crop");
  host.submit("crop", 100);
  const std::string lease = reclaimed(slow, "1 1 0 100");
  pass(1s);
  say(slow, "SETTLE " + lease + " ok 0 x");
  const WorkerLink::Id idle = joined_for("echo");
  say(idle, "CLAIM BLOCK 60000");
  pass(20ms);
  EXPECT_EQ(link->stats().cut_orders, 0U);
}

TEST_F(WorkerLinkLanesTest, OutputsBeyondTheLeaseRecordNothing) {
  const WorkerLink::Id id = joined_for("crop");
  const auto batch = host.submit("crop", 10);
  const std::string lease = reclaimed(id, "1 1 2 4");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 2 x x x"),
            "-ERR the lease has jobs 2 to 3; nothing was recorded");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 1 x"), "-ERR the lease has jobs 2 to 3; nothing was recorded");
  EXPECT_EQ(batch->status().rows, 0U);
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 2 x x"), "*2 :2 :0");
}

// The lease of one worker means nothing on the connection of another.
TEST_F(WorkerLinkLanesTest, ALeaseBelongsToItsConnection) {
  const WorkerLink::Id id = joined_for("crop"), other = joined_for("crop");
  const auto batch = host.submit("crop", 4);
  const std::string lease = reclaimed(id, "1 1 0 4");
  for (const std::string& command : {"SETTLE " + lease + " ok 0 x", "YIELD " + lease, "NOTE " + lease + " 0"})
    EXPECT_EQ(say(other, command), "-LOST the lease is gone; nothing was recorded");
  EXPECT_EQ(say(other, "BEAT " + lease + " 0"), "*1 *2 $4 STOP $18 " + lease);
  EXPECT_EQ(batch->status().rows, 0U);
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 x x x x"), "*2 :4 :0");
}

}  // namespace
}  // namespace locksley::daemon::test
