// What each command of remote workers does: the rows of the table of commands.
// Length: some short tests for each of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/batch/batch_results.h"
#include "core/batch/job_facts.h"
#include "daemon/base/loop/processor_time.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

using testing::Row;
using testing::rows_of;
using WorkerLinkTest = WorkerLinkFixture;

TEST_F(WorkerLinkTest, BeforeJoinNothingIsKnown) {
  const WorkerLink::Id id = connect();
  for (const char* command :
       {"CLAIM", "SETTLE a ok 0 x", "NOTE a 0", "YIELD a", "BEAT", "RECLAIM 1 1 0 1", "LEAVE"})
    EXPECT_EQ(say(id, command), "-NOTJOINED JOIN first") << command;
  EXPECT_TRUE(say(id, "HOP").starts_with("-ERR unknown command 'HOP' (this is the port for workers"));
}

TEST_F(WorkerLinkTest, JoinTellsTheWorkerItsLimits) {
  const WorkerLink::Id id = connect();
  EXPECT_EQ(
      say(id, "join host-7 slots 8 handlers echo resize"),
      "*14 $6 worker $6 host-7 $8 lease_ms :10000 $7 beat_ms :3333 $8 max_jobs :65536 $9 max_bytes :16777216 "
      "$9 addresses *1 $10 queue:7771 $5 store $7 store-1");
  EXPECT_EQ(link->stats().workers, 1U);
  EXPECT_EQ(link->stats().slots, 8U);
  const WorkerLink::Id other = connect();
  EXPECT_NE(say(other, "JOIN w SLOTS 1 LEASE 60000 HANDLERS echo").find("lease_ms :60000 $7 beat_ms :20000"),
            std::string::npos);
}

TEST_F(WorkerLinkTest, JoinIsSentToTheDaemonThatHasTheBatches) {
  host.elsewhere = "READONLY the active daemon is queue-2:7771";
  const WorkerLink::Id id = connect();
  EXPECT_EQ(say(id, "JOIN w SLOTS 1 HANDLERS echo"), "-READONLY the active daemon is queue-2:7771");
  EXPECT_EQ(say(id, "CLAIM"), "-NOTJOINED JOIN first");
  // Whom it does not know it tells nothing.
  EXPECT_EQ(say(connect("stranger"), "JOIN w SLOTS 1 HANDLERS echo").substr(0, 7), "-NOPERM");
  host.elsewhere.reset();
  EXPECT_EQ(say(id, "JOIN w SLOTS 1 HANDLERS echo").front(), '*');
}

TEST_F(WorkerLinkTest, JoinNeedsPermission) {
  EXPECT_EQ(say(connect("stranger"), "JOIN w SLOTS 1 HANDLERS echo"),
            "-NOPERM User stranger has no permissions to run the 'join' command");
  const WorkerLink::Id limited = connect("limited");
  EXPECT_EQ(say(limited, "JOIN w SLOTS 1 HANDLERS echo resize"),
            "-NOPERM User limited has no permissions to use the handler 'resize'");
  EXPECT_EQ(say(limited, "JOIN w SLOTS 1 HANDLERS echo").front(), '*');
}

TEST_F(WorkerLinkTest, TheNumberOfWorkersAndSlotsIsBounded) {
  restart({.max_workers = 4, .max_slots = 20});
  joined(4);
  const WorkerLink::Id id = connect(), other = connect("painter");
  EXPECT_EQ(say(id, "JOIN w SLOTS 7 HANDLERS echo"),
            "-TOOBIG the workers of the user would have more than 10 slots together: JOIN with 6 at most");
  EXPECT_EQ(say(id, "JOIN w SLOTS 6 HANDLERS echo").front(), '*');
  EXPECT_EQ(
      say(connect(), "JOIN w SLOTS 1 HANDLERS echo"),
      "-TOOBIG the user has 2 workers, the most that leave room for those of others: one of them must LEAVE");
  EXPECT_EQ(say(other, "JOIN w SLOTS 6 HANDLERS echo"),
            "-TOOBIG the workers of the user would have more than 5 slots together: JOIN with 5 at most");
  EXPECT_EQ(say(other, "JOIN w SLOTS 5 HANDLERS echo").front(), '*') << "half of what is left";
  EXPECT_EQ(say(id, "LEAVE"), "+OK");
  EXPECT_EQ(say(other, "LEAVE"), "+OK");
  EXPECT_EQ(say(connect(), "JOIN w SLOTS 6 HANDLERS echo").front(), '*') << "there is room again";
}

TEST_F(WorkerLinkTest, ClaimSaysAllThatAWorkerNeeds) {
  const WorkerLink::Id id = joined();
  BatchOptions options;
  options.tenant = "alice";
  options.trace = "00-aa-bb-01";
  options.timeout = 5s;
  host.submit("echo", 3, options);
  EXPECT_EQ(say(id, "CLAIM"),
            "*14 $18 000000000000002a-1 :1 $4 echo :0 :1 :1 :5000 $11 00-aa-bb-01 *1 $2 in $2 b1 $5 alice "
            "*1 $1 0 $-1 $-1");
  EXPECT_EQ(host.batches.at(1)->status().running, 1U);
}

TEST_F(WorkerLinkTest, ARangeIsNotSentAsPayloads) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 3, {}, std::make_unique<RangePayloads>(100, "frame-{}"));
  const Granted first = claim(id);
  EXPECT_EQ(settle_all(id, first), "*2 :1 :0");
  EXPECT_EQ(say(id, "CLAIM JOBS 1"),
            "*14 $18 000000000000002a-2 :1 $4 echo :1 :1 :1 :0 $-1 *0 $2 b1 $7 default *1 $1 0 *2 :101 $8 "
            "frame-{} $-1");
}

TEST_F(WorkerLinkTest, WithoutJobsClaimIsNull) {
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, "CLAIM"), "$-1");
  EXPECT_EQ(say(id, "CLAIM BLOCK 0"), "$-1");
}

TEST_F(WorkerLinkTest, ABlockedClaimGetsTheFirstJobs) {
  const WorkerLink::Id early = joined(), late = joined();
  EXPECT_EQ(say(early, "CLAIM BLOCK 1000"), "");
  EXPECT_EQ(say(late, "CLAIM BLOCK 1000"), "");
  host.submit("echo", 1);
  link->wake(now);
  EXPECT_TRUE(parse(sent(early)));
  EXPECT_EQ(sent(late), "");
  EXPECT_EQ(link->next_timer(), now + 10ms + 3us)
      << "a worker waits while a lease is out: a cut may be worth it";
  pass(1000ms);
  EXPECT_EQ(sent(late), "$-1");
  EXPECT_EQ(link->take_ready().size(), 2U);
}

// A worker with several slots sends other commands while it waits, and each of them ends its CLAIM.
TEST_F(WorkerLinkTest, AWorkerWithAnIdleSlotKeepsItsPlaceUntilItGetsALease) {
  const WorkerLink::Id early = joined(), late = joined();
  EXPECT_EQ(say(early, "CLAIM BLOCK 1000"), "");
  EXPECT_EQ(say(late, "CLAIM BLOCK 1000"), "");
  EXPECT_EQ(say(early, "BEAT"), "$-1 *0");
  EXPECT_EQ(say(early, "CLAIM SLOT 1 BLOCK 1000"), "");
  host.submit("echo", 1);
  link->wake(now);
  EXPECT_TRUE(parse(sent(early)));
  EXPECT_EQ(sent(late), "");
  EXPECT_EQ(say(early, "CLAIM SLOT 0 BLOCK 1000"), "")
      << "the other slot: its turn comes after those that wait";
  host.submit("echo", 1);
  link->wake(now);
  EXPECT_TRUE(parse(sent(late)));
  EXPECT_EQ(sent(early), "");
}

TEST_F(WorkerLinkTest, AnAcknowledgementIsSentWithTheJobsForWhichTheWorkerWaits) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  const Granted lease = claim(id);
  link->take_ready();
  const std::string recorded = settle_all(id, lease);
  EXPECT_EQ(say(id, "CLAIM"), "$-1");
  EXPECT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  EXPECT_EQ(recorded, "*2 :1 :0");
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{});
  EXPECT_TRUE(link->is_put_off(id));
  host.submit("echo", 1);
  link->wake(now);
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{id});
  EXPECT_FALSE(link->is_put_off(id));
}

TEST_F(WorkerLinkTest, AnAcknowledgementIsSentByItselfIfNoJobsCome) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  const Granted lease = claim(id);
  link->take_ready();
  settle_all(id, lease);
  say(id, "CLAIM BLOCK 1000");
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{});
  const auto next = link->next_timer();
  ASSERT_TRUE(next.has_value());
  EXPECT_LE(*next - now, 2ms);
  pass(*next - now);
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{id});
  EXPECT_FALSE(link->is_put_off(id));
}

TEST_F(WorkerLinkTest, EachAcknowledgementIsPutOffForATimeOfItsOwn) {
  const WorkerLink::Id id = joined();
  const auto settle_and_wait = [&](const Granted& lease) {
    ASSERT_TRUE(lease);
    link->take_ready();
    settle_all(id, lease);
    say(id, "CLAIM BLOCK 1000");
    EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{});
  };
  host.submit("echo", 1);
  settle_and_wait(claim(id));
  pass(1500us);
  // The first one goes with these jobs.
  host.submit("echo", 1);
  link->wake(now);
  settle_and_wait(parse(sent(id)));
  pass(1500us);
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{});
  EXPECT_TRUE(link->is_put_off(id));
  pass(500us);
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{id});
}

TEST_F(WorkerLinkTest, AnAcknowledgementIsSentAtOnceToAWorkerThatDoesNotWait) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  const Granted lease = claim(id);
  link->take_ready();
  settle_all(id, lease);
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{id});
}

TEST_F(WorkerLinkTest, AnAcknowledgementBehindAnotherReplyIsSentAtOnce) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  const Granted lease = claim(id);
  link->take_ready();
  const std::vector<std::string_view> beat{"BEAT"};
  link->execute(id, proto::ArgumentList::copy_of(beat), now);  // its reply stays in the output
  const std::vector<std::string_view> settle{"SETTLE", lease.lease, "ok", "0", "out"};
  link->execute(id, proto::ArgumentList::copy_of(settle), now);
  const std::vector<std::string_view> wait{"CLAIM", "BLOCK", "1000"};
  link->execute(id, proto::ArgumentList::copy_of(wait), now);
  EXPECT_EQ(link->take_ready(), std::vector<WorkerLink::Id>{id});
  EXPECT_EQ(sent(id), "*0 *2 :1 :0");
}

TEST_F(WorkerLinkTest, ABlockedClaimEndsWithTheNextCommand) {
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  EXPECT_EQ(say(id, "BEAT"), "$-1 *0");
  host.submit("echo", 1);
  link->wake(now);
  EXPECT_EQ(sent(id), "") << "it no longer waits";
  pass(2000ms);
  EXPECT_EQ(sent(id), "") << "and is answered once";
}

TEST_F(WorkerLinkTest, ABlockedClaimEndsWithACommandThatOthersAnswer) {
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, "CLAIM BLOCK 1000"), "");
  link->end_claim(id, now);
  EXPECT_EQ(sent(id), "$-1");
  link->end_claim(id, now);
  EXPECT_EQ(sent(id), "") << "once";
}

TEST_F(WorkerLinkTest, ASlotHasTwoLeases) {
  const WorkerLink::Id id = joined(2);
  host.submit("echo", 10);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(claim(id, "SLOT 1 JOBS 1"));
  EXPECT_EQ(say(id, "CLAIM SLOT 1"), "-ERR a slot has at most 2 leases");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(claim(id, "JOBS 1")) << "the slot with the fewest";
  EXPECT_EQ(say(id, "CLAIM"), "-ERR a slot has at most 2 leases");
  EXPECT_EQ(host.batches.at(1)->status().running, 2U) << "one of each slot runs";
  EXPECT_EQ(ring().executors, 4U);
}

TEST_F(WorkerLinkTest, AWideClaimCountsAsManyExecutors) {
  const WorkerLink::Id id = joined(8);
  BatchOptions options;
  options.slots = 6;
  host.submit("echo", 100, options);
  EXPECT_EQ(claim(id, "WIDTH 4").count, 4U) << "of unknown cost: one for each slot";
  EXPECT_EQ(ring().executors, 4U);
  EXPECT_EQ(claim(id, "WIDTH 4").count, 2U) << "SLOTS leaves two";
  EXPECT_EQ(ring().executors, 6U);
  EXPECT_EQ(say(id, "CLAIM WIDTH 2"), "$-1");
}

TEST_F(WorkerLinkTest, ClaimIsBoundedByJobsAndBytes) {
  const WorkerLink::Id id = joined(8);
  const auto payloads = [] {
    return std::make_unique<StringPayloads>(std::vector<std::string>(50, std::string(100, 'p')));
  };
  host.submit("echo", 50, {}, payloads());
  EXPECT_EQ(claim(id, "WIDTH 8 BYTES 250").count, 3U);
  EXPECT_EQ(claim(id, "WIDTH 8 JOBS 2").count, 2U);
  EXPECT_EQ(link->stats().leased_bytes, 500U);
}

TEST_F(WorkerLinkTest, ClaimMayNameSomeOfTheHandlers) {
  const WorkerLink::Id id = connect();
  say(id, "JOIN w SLOTS 4 HANDLERS echo resize");
  host.submit("echo", 1);
  EXPECT_EQ(say(id, "CLAIM HANDLERS resize"), "$-1");
  host.submit("resize", 1);
  EXPECT_EQ(claim(id, "HANDLERS resize").batch, "2");
  EXPECT_EQ(claim(id, "HANDLERS resize echo").batch, "1");
}

TEST_F(WorkerLinkTest, SettleRecordsInAnyOrder) {
  const WorkerLink::Id id = joined();
  const auto batch = host.submit("echo", 6);
  const std::string lease = reclaimed(id, "1 1 0 6");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 4 e f"), "*2 :2 :4");
  EXPECT_EQ(say(id, "SETTLE " + lease + " error 0 bad"), "*2 :1 :3");
  EXPECT_EQ(say(id, "SETTLE " + lease + " OK 0 a b c d e f"), "*2 :3 :0") << "those it still holds";
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 a"), "-LOST the lease is gone; nothing was recorded");
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(rows_of(*batch), (std::vector<Row>{{4, JobStatus::kOk, "e"},
                                               {5, JobStatus::kOk, "f"},
                                               {0, JobStatus::kError, "bad"},
                                               {1, JobStatus::kOk, "b"},
                                               {2, JobStatus::kOk, "c"},
                                               {3, JobStatus::kOk, "d"}}));
  EXPECT_EQ(link->stats().leases, 0U);
}

TEST_F(WorkerLinkTest, ALeaseIsInFewParts) {
  restart({.max_parts = 2});
  const WorkerLink::Id id = joined();
  host.submit("echo", 10);
  const std::string lease = reclaimed(id, "1 1 0 10");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 2 x"), "*2 :1 :9");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 7 x").find("-TOOBIG the jobs of the lease"), 0U);
  EXPECT_EQ(host.batches.at(1)->status().ok, 1U) << "nothing was recorded";
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 3 x"), "*2 :1 :8") << "beside one that has ended";
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 x x x x x x x x x x"), "*2 :8 :0");
}

TEST_F(WorkerLinkTest, EachStatusIsRecorded) {
  const WorkerLink::Id id = joined();
  const auto batch = host.submit("echo", 5);
  const std::string lease = reclaimed(id, "1 1 0 5");
  const std::vector<std::string> statuses = {"ok", "error", "timeout", "crashed", "cancelled"};
  for (std::size_t i = 0; i < 5; ++i)
    say(id, "SETTLE " + lease + " " + statuses[i] + " " + std::to_string(i) + " x");
  const std::vector<Row> rows = rows_of(*batch);
  ASSERT_EQ(rows.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(to_string(rows[i].status), statuses[i]);
}

TEST_F(WorkerLinkTest, ALeaseShowsABoundedNumberOfJobs) {
  const WorkerLink::Id id = joined();
  const auto batch = host.submit("echo", 2 * OutLease::kMostShown);
  const std::string lease = reclaimed(id, "1 1 0 " + std::to_string(2 * OutLease::kMostShown));
  for (std::size_t i = 0; i < 2 * OutLease::kMostShown; ++i)
    ASSERT_EQ(say(id, "NOTE " + lease + " " + std::to_string(i) + " TEXT x"), "+OK");
  const auto count = [&] {
    std::size_t shown = 0;
    host.lane_of("echo")->running().visit(
        0, 4 * OutLease::kMostShown, 0, [](const Batch&) { return true; },
        [&](const ShownJobs::View&) { ++shown; });
    return shown;
  };
  EXPECT_EQ(count(), OutLease::kMostShown);
  // Those that have ended make room for others.
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 x y"),
            "*2 :2 :" + std::to_string(2 * OutLease::kMostShown - 2));
  EXPECT_EQ(say(id, "NOTE " + lease + " 2000 PROGRESS 7"), "+OK");
  EXPECT_EQ(host.lane_of("echo")->running().find(*batch, 2000).value().progress, std::optional(7U));
  EXPECT_LE(count(), OutLease::kMostShown);
}

TEST_F(WorkerLinkTest, AnOutputThatIsTooLargeIsAnErrorOfItsJob) {
  const WorkerLink::Id id = joined();
  BatchOptions options;
  options.max_output_bytes = 3;
  const auto batch = host.submit("echo", 2, options);
  const std::string lease = reclaimed(id, "1 1 0 2");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 four two"), "*2 :2 :0");
  EXPECT_EQ(batch->status().ok, 1U);
  EXPECT_EQ(batch->status().failed, 1U);
}

TEST_F(WorkerLinkTest, TheReplyOfSettleWaitsForTheStoreAndLaterOnesWaitWithIt) {
  const WorkerLink::Id id = joined(), other = joined();
  host.submit("echo", 4);
  const std::string lease = reclaimed(id, "1 1 0 2");
  host.writes = 7;
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 x"), "");
  EXPECT_EQ(say(id, "BEAT"), "") << "replies are in order";
  EXPECT_EQ(say(other, "BEAT"), "*0") << "others do not wait";
  host.writes = 8;
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 1 x"), "");
  EXPECT_EQ(host.batches.at(1)->status().ok, 2U) << "the job has ended; only the reply waits";
  link->written(7);
  EXPECT_EQ(sent(id), "*2 :1 :1 *0");
  link->written(8);
  EXPECT_EQ(sent(id), "*2 :1 :0");
}

TEST_F(WorkerLinkTest, WhatAWorkerSaysOfAJobIsVisibleAndKeptWithItsResult) {
  const WorkerLink::Id id = joined();
  const auto batch = host.submit("echo", 2);
  const Granted lease = claim(id);
  const ShownJobs& shown = host.lane_of("echo")->running();
  EXPECT_TRUE(shown.find(*batch, 0).has_value());
  EXPECT_EQ(say(id, "NOTE " + lease.lease + " 0 PROGRESS 40 TEXT half LOG line EXIT 3"), "+OK");
  EXPECT_EQ(say(id, "NOTE " + lease.lease + " 0 LOG s"), "+OK");
  const auto view = shown.find(*batch, 0);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->worker, "w");
  EXPECT_EQ(view->progress, std::optional(40U));
  EXPECT_EQ(view->note, "half");
  EXPECT_EQ(view->exit_status, std::optional(3));
  EXPECT_EQ(shown.read_log(*batch, 0, 0)->bytes, "lines");
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0");
  EXPECT_EQ(say(id, "NOTE " + lease.lease + " 0 PROGRESS 50"),
            "-LOST the lease is gone; nothing was recorded");
  EXPECT_FALSE(shown.find(*batch, 0).has_value());
  std::string kept;
  batch->results().read(0, 1, [&](const ResultRow& row) {
    kept = row.facts;
    return true;
  });
  const auto facts = decode_facts(kept);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->worker, "w");
  EXPECT_EQ(facts->exit_status, std::optional(3));
  EXPECT_EQ(facts->note, "half");
  EXPECT_EQ(facts->log, "lines");
}

TEST_F(WorkerLinkTest, OfALeaseTheJobsThatMayRunAreVisible) {
  const WorkerLink::Id id = joined(1);
  const auto batch = host.submit("echo", 10);
  const auto shown = [&] {
    std::vector<std::uint64_t> indexes;
    host.lane_of("echo")->running().visit(
        0, 100, 100, [](const Batch&) { return true; },
        [&](const ShownJobs::View& view) { indexes.push_back(view.index); });
    std::ranges::sort(indexes);
    return indexes;
  };
  using Indexes = std::vector<std::uint64_t>;
  const std::string lease = reclaimed(id, "1 1 0 5");
  const std::string behind = reclaimed(id, "1 1 5 10");
  EXPECT_EQ(shown(), Indexes{0}) << "the second lease of a slot waits";
  say(id, "SETTLE " + lease + " ok 0 x x");
  EXPECT_EQ(shown(), Indexes{2});
  say(id, "NOTE " + lease + " 4 PROGRESS 1");
  EXPECT_EQ(shown(), (Indexes{2, 4})) << "the worker knows better what it runs";
  say(id, "BEAT " + lease + " 2");
  EXPECT_EQ(shown(), Indexes{4}) << "it has not begun the others";
  say(id, "YIELD " + lease);
  EXPECT_EQ(shown(), Indexes{5});
  link->disconnect(id, now);
  EXPECT_EQ(shown(), Indexes{});
}

TEST_F(WorkerLinkTest, YieldGivesTheTailBack) {
  const WorkerLink::Id id = joined(), other = joined();
  host.submit("echo", 10);
  const std::string lease = reclaimed(id, "1 1 0 10");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 8 x"), "*2 :1 :9");
  EXPECT_EQ(say(id, "YIELD " + lease + " 5"), ":4");
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 5 x"), "*2 :0 :5") << "no longer its own";
  EXPECT_EQ(claim(other).first, 5U);
  EXPECT_EQ(say(id, "YIELD " + lease + " 5"), ":0");
  EXPECT_EQ(say(id, "YIELD " + lease), ":5") << "all that have not ended";
  EXPECT_EQ(say(id, "YIELD " + lease), "-LOST the lease is gone; nothing was recorded");
  EXPECT_EQ(link->stats().yielded_jobs, 9U);
}

TEST_F(WorkerLinkTest, BeatStopsWhatIsGone) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  const Granted lease = claim(id);
  EXPECT_EQ(say(id, "BEAT " + lease.lease + " 0"), "*0");
  EXPECT_EQ(say(id, "BEAT 000000000000002b-1 0"), "*1 *2 $4 STOP $18 000000000000002b-1")
      << "of an earlier process";
}

TEST_F(WorkerLinkTest, ABeatThatNamesAWideLeaseVeryOftenTakesNoLonger) {
  constexpr std::uint32_t kSlots = 4'096;  // the most
  const WorkerLink::Id id = joined(kSlots);
  host.submit("echo", 2 * kSlots);
  const std::string slots = std::to_string(kSlots);
  const std::string lease = reclaimed(id, "1 1 0 " + std::to_string(2 * kSlots) + " WIDTH " + slots);
  ASSERT_NE(lease, "");
  Words words{"BEAT"};
  for (std::uint32_t i = 0; i < 2 * kSlots; ++i) {
    words.push_back(lease);
    words.push_back(std::to_string(i));
  }
  const Nanoseconds began = processor_time();
  EXPECT_EQ(run(id, words), "*0");
  EXPECT_LT(processor_time() - began, 300ms) << "of 20 ms";
}

TEST_F(WorkerLinkTest, BeatChargesLongLeases) {
  const WorkerLink::Id id = joined(2, " LEASE 60000");
  BatchOptions slow, quick;
  slow.tenant = "slow";
  quick.tenant = "quick";
  host.submit("echo", 10, slow);
  ASSERT_TRUE(claim(id, "SLOT 0 JOBS 1"));
  host.submit("echo", 10, quick);
  pass(30s);
  EXPECT_EQ(say(id, "BEAT"), "*0");
  for (int i = 0; i < 3; ++i) {
    const Granted next = claim(id, "SLOT 1 JOBS 1");
    EXPECT_EQ(next.batch, "2") << "the first tenant has had 30 s";
    now += 1s;
    settle_all(id, next);
  }
}

TEST_F(WorkerLinkTest, LeaveGivesEverythingBackAndLosesNothing) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 3);
  const Granted lease = claim(id);
  EXPECT_EQ(say(id, "LEAVE"), "+OK");
  EXPECT_EQ(ring().queued, 3U);
  EXPECT_EQ(link->stats().workers, 0U);
  EXPECT_EQ(link->stats().slots, 0U);
  EXPECT_EQ(link->stats().lost_by_disconnect, 0U);
  EXPECT_EQ(settle_all(id, lease), "-NOTJOINED JOIN first");
  EXPECT_EQ(say(id, "JOIN w SLOTS 1 HANDLERS echo").front(), '*') << "it may come back";
}

TEST_F(WorkerLinkTest, ReclaimGetsWhatIsStillQueued) {
  const WorkerLink::Id id = joined(4), other = joined();
  host.submit("echo", 10);
  const std::string before = reclaimed(id, "1 1 0 8");
  say(id, "SETTLE " + before + " ok 1 x");
  link->disconnect(id, now);
  const WorkerLink::Id again = joined(4);
  ASSERT_FALSE(reclaimed(other, "1 1 4 6").empty()) << "somebody has taken these";
  EXPECT_EQ(say(again, "RECLAIM 1 2 0 8"), "-LOST none of these jobs is queued for this attempt")
      << "another attempt";
  EXPECT_EQ(say(again, "RECLAIM 1 1 0 8 WIDTH 2"),
            "*3 $18 000000000000002a-3 *3 *2 :0 :1 *2 :2 :4 *2 :6 :8 :1");
  EXPECT_EQ(say(again, "RECLAIM 1 1 0 8"), "-LOST none of these jobs is queued for this attempt");
  EXPECT_EQ(say(again, "SETTLE " + before + " ok 0 x"), "-LOST the lease is gone; nothing was recorded");
  EXPECT_EQ(say(again, "SETTLE 000000000000002a-3 ok 0 x x x x x x x x"), "*2 :5 :0");
  EXPECT_EQ(link->stats().reclaimed_jobs, 8U + 2U + 5U);
}

TEST_F(WorkerLinkTest, ReclaimNeedsTheHandler) {
  const WorkerLink::Id id = joined();
  host.submit("resize", 1);
  EXPECT_EQ(say(id, "RECLAIM 1 1 0 1"), "-NOHANDLER the worker has not joined for 'resize'");
}

TEST_F(WorkerLinkTest, ReclaimTellsNothingOfABatchWhoseHandlerTheUserMayNotServe) {
  const WorkerLink::Id id = connect("limited");
  EXPECT_EQ(say(id, "JOIN w SLOTS 1 HANDLERS echo").front(), '*');
  host.submit("resize", 1);
  EXPECT_EQ(say(id, "RECLAIM 1 1 0 1"), say(id, "RECLAIM 2 1 0 1")) << "there is no batch 2";
}

}  // namespace
}  // namespace locksley::daemon::test
