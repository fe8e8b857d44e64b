// The link as long as the connection holds: who it is, what it claims, what it returns, and which
// orders it obeys.
// Length: a short test for each of these.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "tests/unit/daemon/upstream/link/link_fixture.h"

namespace locksley::daemon::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::StartsWith;
using UpstreamLinkTest = LinkFixture;

TEST_F(UpstreamLinkTest, SaysWhoItIsAndJoins) {
  options.addresses.front().user = "renderer";
  options.addresses.front().password = "secret";
  make(0, 4);
  join();
  EXPECT_THAT(upstream->commands[0], ElementsAre("HELLO", "3", "AUTH", "renderer", "secret"));
  EXPECT_THAT(upstream->commands[1],
              ElementsAre("JOIN", "host-7", "SLOTS", "4", "PUSH", "PARTIAL", "HANDLERS", "echo"));
}

TEST_F(UpstreamLinkTest, SaysHowLongItsProgramsMayTakeToEnd) {
  options.grace = 5s;
  make(0, 4);
  join();
  EXPECT_THAT(upstream->commands[1], ElementsAre("JOIN", "host-7", "SLOTS", "4", "GRACE", "5000", "PUSH",
                                                 "PARTIAL", "HANDLERS", "echo"));
  options.grace = 1h;
  make(0, 4);
  join();
  EXPECT_THAT(upstream->commands[1], Contains("600000")) << "upstreams take no more";
}

TEST_F(UpstreamLinkTest, AnUpstreamThatDoesNotKnowGraceIsJoinedWithoutIt) {
  options.grace = 5s;
  make(8, 2);
  upstream->knows_grace = false;
  join();
  EXPECT_THAT(upstream->commands[1], Contains("GRACE"));
  EXPECT_THAT(upstream->commands[2], ::testing::AllOf(Contains("JOIN"), ::testing::Not(Contains("GRACE"))));
  disconnect();
  upstream->commands.clear();
  reconnect();
  exchange();
  EXPECT_THAT(upstream->commands, Contains(Contains("GRACE"))) << "it may have been replaced";
  run_all();
}

TEST_F(UpstreamLinkTest, AJoinThatIsRefusedForAnotherReasonIsNotSentAgain) {
  options.grace = 5s;
  make(4);
  upstream->refuses_join = "ERR the name of a worker is empty";
  connect();
  exchange();
  EXPECT_TRUE(link->is_broken());
  EXPECT_EQ(upstream->commands.size(), 2U);
}

TEST_F(UpstreamLinkTest, AWrongPasswordBreaksTheConnectionAndSaysWhy) {
  options.addresses.front().user = "renderer";
  options.addresses.front().password = "wrong";
  make(0);
  connect();
  exchange();
  EXPECT_TRUE(link->is_broken());
  EXPECT_THAT(link->trouble(), StartsWith("WRONGPASS"));
}

TEST_F(UpstreamLinkTest, HandlersThatTheUpstreamDoesNotOfferAreLeftOut) {
  options.handlers = {"spin", "echo", "sha256"};
  make(4);
  join();
  EXPECT_THAT(link->joined().not_served, ElementsAre("spin", "sha256"));
  run_all();
}

TEST_F(UpstreamLinkTest, WithoutAnyHandlerItDoesNotJoin) {
  options.handlers = {"spin"};
  make(4);
  connect();
  exchange();
  EXPECT_TRUE(link->is_broken());
  EXPECT_THAT(link->trouble(), StartsWith("NOHANDLER"));
}

TEST_F(UpstreamLinkTest, EachSlotHasOneLeaseThatRunsAndOneThatIsReady) {
  make(1'000, 3);
  join();
  EXPECT_EQ(host->running.size(), 3U);
  EXPECT_EQ(upstream->leases.size(), 6U);
  std::map<std::uint32_t, int> by_slot;
  for (const auto& [name, lease] : upstream->leases) ++by_slot[lease.slot];
  EXPECT_EQ(by_slot, (std::map<std::uint32_t, int>{{0, 2}, {1, 2}, {2, 2}}));
  run_all();
  EXPECT_EQ(host->most_running, 3U);
}

TEST_F(UpstreamLinkTest, TheReadyLeaseOfASlotBeginsWhenTheLeaseBeforeItHasEnded) {
  make(32, 2);
  join();
  ASSERT_EQ(host->running.size(), 2U);
  const LeaseKey first = host->running.begin()->first;
  run_lease(first, 8);
  EXPECT_EQ(host->running.size(), 2U);  // the next one runs although the upstream knows nothing yet
  EXPECT_FALSE(host->running.contains(first));
}

TEST_F(UpstreamLinkTest, AJobHasTheUpstreamsBatchIndexAttemptAndTimeout) {
  make(2);
  upstream->timeout = 1'500ms;
  join();
  EXPECT_EQ(host->last.handler, "echo");
  EXPECT_EQ(host->last.id, "b7");
  EXPECT_EQ(host->last.tenant, "alice");
  EXPECT_EQ(host->last.attempt, 3U);
  EXPECT_EQ(host->last.timeout, 1'500ms);
  EXPECT_EQ(host->payloads.at(1), "p1");
}

TEST_F(UpstreamLinkTest, PayloadsOfARangeAreComputedFromTheValueOfTheFirstIndex) {
  make(16, 1);
  upstream->range_template = "frame {}";
  join();
  run(8);
  exchange();
  EXPECT_EQ(host->payloads.at(0), "frame 1000");
  EXPECT_EQ(host->payloads.at(9), "frame 1009");
}

TEST_F(UpstreamLinkTest, AnIdleLinkWaitsWithOneClaimAndSaysNothingMore) {
  make(0, 2);
  join();
  EXPECT_EQ(upstream->count_of("CLAIM"), 1U);
  advance(30s);
  exchange();
  EXPECT_EQ(upstream->count_of("CLAIM"), 1U);
  EXPECT_EQ(upstream->count_of("BEAT"), 0U);
  EXPECT_EQ(link->next_timer(), now - 30s + options.block + options.reply_timeout);
}

TEST_F(UpstreamLinkTest, ResultsAndTheNextClaimAreOneWrite) {
  make(1, 1);
  join();
  exchange();
  run(1);
  link->flush(now);
  const std::string bytes = sent();
  EXPECT_NE(bytes.find("SETTLE"), std::string::npos);
  EXPECT_GT(bytes.rfind("CLAIM"), bytes.rfind("SETTLE"));
  EXPECT_NE(bytes.find("BLOCK"), std::string::npos);
}

TEST_F(UpstreamLinkTest, AfterAWaitTheNextClaimGoesWithTheResults) {
  make(0, 2);
  join();
  upstream->add_jobs(1);
  deliver(upstream->take());
  link->flush(now);
  EXPECT_EQ(sent(), "");
  EXPECT_TRUE(link->puts_off_claims());
  run(1);
  link->flush(now);
  const std::string bytes = sent();
  EXPECT_GT(bytes.rfind("CLAIM"), bytes.find("SETTLE"));
  EXPECT_FALSE(link->puts_off_claims());
}

TEST_F(UpstreamLinkTest, AJobThatTakesLongDoesNotKeepTheOtherSlotsFromClaiming) {
  make(0, 2);
  join();
  upstream->add_jobs(1);
  deliver(upstream->take());
  link->claim_put_off(now);
  EXPECT_NE(sent().find("CLAIM"), std::string::npos);
}

TEST_F(UpstreamLinkTest, ResultsAreExpectedSoonAfterAShortLease) {
  make(0, 2);
  join();
  const auto take_and_run = [&](std::chrono::microseconds time) {
    upstream->add_jobs(1);
    deliver(upstream->take());
    const bool expects = link->expects_results_soon();
    now += time;
    run(1);
    exchange();
    return expects;
  };
  EXPECT_FALSE(take_and_run(1ms)) << "nothing is known of its jobs";
  EXPECT_FALSE(take_and_run(100us)) << "the lease before took long";
  EXPECT_TRUE(take_and_run(1ms)) << "the lease before was short";
  EXPECT_FALSE(take_and_run(1ms));
}

TEST_F(UpstreamLinkTest, NoClaimIsForASlotThatRunsALeaseWhileAnotherIsIdle) {
  make(0, 2);
  join();
  upstream->add_jobs(1);
  deliver(upstream->take());
  link->claim_put_off(now);
  const std::string bytes = sent();
  EXPECT_NE(bytes.find("SLOT\r\n$1\r\n1\r\n$5\r\nBLOCK"), std::string::npos) << bytes;
  EXPECT_EQ(bytes.find("SLOT\r\n$1\r\n0\r\n"), std::string::npos) << bytes;
}

TEST_F(UpstreamLinkTest, AWaitForASecondLeaseGivesWayToASlotThatHasNone) {
  make(0, 2);
  join();
  for (int slot = 0; slot < 2; ++slot) {
    upstream->add_jobs(8);
    exchange();
  }
  ASSERT_EQ(host->running.size(), 2U);
  const LeaseKey second = host->running.rbegin()->first;
  ASSERT_EQ(upstream->commands.back(), (Words{"CLAIM", "SLOT", "1", "BLOCK", "60000"})) << "both are busy";
  // The claim that goes with the results cannot know that the one before is over.
  run_lease(second, 8);
  link->flush(now);
  upstream->feed(sent());
  EXPECT_EQ(upstream->commands.back(), (Words{"CLAIM", "SLOT", "0", "BLOCK", "60000"}));
  exchange();
  EXPECT_EQ(upstream->commands.back(), (Words{"CLAIM", "SLOT", "1", "BLOCK", "60000"}));
  const std::size_t claims = upstream->count_of("CLAIM");
  exchange();
  EXPECT_EQ(upstream->count_of("CLAIM"), claims) << "once";
}

TEST_F(UpstreamLinkTest, SeveralClaimsGoOutAtOnceWhileLeasesCome) {
  make(100'000, 64);
  connect();
  int writes = 0;
  while (upstream->leases.size() < 128 && writes < 1'000) {
    link->flush(now);
    link->claim_put_off(now);
    upstream->feed(sent());
    deliver(upstream->take());
    ++writes;
  }
  EXPECT_LT(writes, 20);  // 128 claims one by one would be as many
}

TEST_F(UpstreamLinkTest, OneJobAfterAnotherCostsOneClaimEach) {
  make(0, 2);
  join();
  for (std::size_t job = 1; job <= 5; ++job) {
    upstream->add_jobs(1);
    deliver(upstream->take());
    run(1);
    exchange();
    EXPECT_EQ(upstream->count_of("CLAIM"), 1 + job);
  }
}

TEST_F(UpstreamLinkTest, NothingIsClaimedWhileKeptResultsAreAboveTheBound) {
  options.max_kept_bytes = 20;
  make(1'000, 1);
  upstream->holds_settles = true;
  join();
  for (int i = 0; i < 20; ++i) {
    run(8);
    exchange();
  }
  EXPECT_GT(link->stats().kept_bytes, 20U);
  EXPECT_TRUE(host->running.empty());
  const std::size_t before = upstream->count_of("CLAIM");
  exchange();
  EXPECT_EQ(upstream->count_of("CLAIM"), before);
  upstream->release();
  exchange();
  EXPECT_EQ(link->stats().kept_bytes, 0U);
  run_all();
}

TEST_F(UpstreamLinkTest, AHeldLeaseIsKeptByBeatsWithTheNextIndex) {
  make(8, 1);
  join();
  run(3);
  exchange();
  ASSERT_TRUE(link->next_timer().has_value());
  EXPECT_EQ(*link->next_timer(), now + 3'333ms);
  advance(3'333ms);
  exchange();
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("BEAT", "life-1", "3")));
  advance(3'332ms);
  exchange();
  EXPECT_EQ(upstream->count_of("BEAT"), 1U);
  advance(1ms);
  exchange();
  EXPECT_EQ(upstream->count_of("BEAT"), 2U);
}

TEST_F(UpstreamLinkTest, AnOutputThatTheUpstreamDoesNotTakeIsAnErrorOfItsJobAlone) {
  make(4, 1);
  upstream->longest_output = 100;
  join();
  const LeaseKey key = host->running.begin()->first;
  const std::string longest(100, 'x');
  std::string outputs = bulk("short");
  outputs += bulk(longest);
  outputs += bulk(longest + "x");
  outputs += bulk("short");
  link->settle(key, JobStatus::kOk, 0, 4, outputs, now);
  host->running.clear();
  link->ended(key, now);
  exchange();
  EXPECT_FALSE(link->is_broken());
  const std::string error =
      "its output is 101 bytes long, and the upstream daemon takes at most 100: half of its "
      "workers.max_leased_bytes, or limits.max_command";
  using ::testing::Contains;
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("SETTLE", "life-1", "ok", "0", "short")));
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("SETTLE", "life-1", "ok", "1", longest)));
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("SETTLE", "life-1", "error", "2", error)));
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("SETTLE", "life-1", "ok", "3", "short")));
  EXPECT_TRUE(upstream->all_recorded());
  EXPECT_EQ(link->stats().kept_bytes, 0U);
}

TEST_F(UpstreamLinkTest, ResultsThatAreSentAgainFitTheUpstreamOfThen) {
  make(2, 1);
  join();
  const LeaseKey key = host->running.begin()->first;
  link->settle(key, JobStatus::kOk, 0, 2, bulk("short") + bulk(std::string(200, 'x')), now);
  host->running.clear();
  link->ended(key, now);
  sent();  // it is lost
  disconnect();
  upstream->longest_output = 100;
  advance(1s);
  join();
  EXPECT_TRUE(upstream->all_recorded());
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("SETTLE", "life-2", "ok", "0", "short")));
  EXPECT_THAT(upstream->commands, Contains(Contains("error")));
}

TEST_F(UpstreamLinkTest, ALeaseThatWaitsBehindOtherJobsIsReportedSoonAndOnce) {
  make(8, 1);
  join();
  EXPECT_EQ(link->next_check(), now + LeaseBeats::kLook);
  advance(LeaseBeats::kLook - 1ms);
  link->report_waiting(now);
  EXPECT_EQ(upstream->count_of("BEAT"), 0U);
  advance(1ms);
  link->report_waiting(now);
  exchange();
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("BEAT", "life-1", "0")));
  EXPECT_EQ(link->next_check(), now + LeaseBeats::kLook);
  advance(LeaseBeats::kLook);
  link->report_waiting(now);
  exchange();
  EXPECT_EQ(upstream->count_of("BEAT"), 1U);
  run_all();
}

// Else a job that takes its machine down would not count as lost.
TEST_F(UpstreamLinkTest, ALeaseThatWaitedIsReportedSoonAfterItHasBegun) {
  make(8, 1);
  join();
  advance(LeaseBeats::kLook);
  link->report_waiting(now);
  advance(LeaseBeats::kLook);
  host->running.begin()->second.next = 1;
  link->report_waiting(now);
  exchange();
  EXPECT_EQ(upstream->count_of("BEAT"), 2U);
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("BEAT", "life-1", "1")));
  EXPECT_EQ(link->next_check(), std::nullopt);
  run_all();
}

TEST_F(UpstreamLinkTest, NoLookIsDueForALeaseThatHasEnded) {
  make(16, 2);
  join();
  ASSERT_EQ(host->running.size(), 2U);
  const LeaseKey first = host->running.begin()->first;
  const LeaseKey second = host->running.rbegin()->first;
  run_lease(first, 8);
  EXPECT_EQ(link->next_check(), now + LeaseBeats::kLook);  // for the second
  run_lease(second, 8);
  EXPECT_EQ(link->next_check(), std::nullopt);
  run_all();
}

TEST_F(UpstreamLinkTest, ALeaseThatHasBegunAtOnceIsNotReported) {
  make(8, 1);
  join();
  run(3);
  advance(LeaseBeats::kLook);
  link->report_waiting(now);
  exchange();
  EXPECT_EQ(upstream->count_of("BEAT"), 0U);
  run_all();
}

// Else the upstream would end jobs that have not begun here, because others run.
TEST_F(UpstreamLinkTest, WhileJobsHaveATimeoutBeatsComeEachSecond) {
  make(8, 1);
  upstream->timeout = 500ms;
  join();
  for (std::size_t beats = 0; beats < 3; ++beats) {
    EXPECT_EQ(upstream->count_of("BEAT"), beats);
    EXPECT_EQ(link->next_timer(), now + 1s);
    advance(1s);
    exchange();
  }
  run_all();
}

// After it has reclaimed them, the upstream counts the time of the jobs anew.
TEST_F(UpstreamLinkTest, AfterAReconnectTheFirstBeatOfJobsWithATimeoutComesWithinASecond) {
  make(8, 1);
  upstream->timeout = 500ms;
  join();
  disconnect();
  advance(1s);
  join();
  const std::size_t beats = upstream->count_of("BEAT");
  advance(1s);
  exchange();
  EXPECT_EQ(upstream->count_of("BEAT"), beats + 1);
  run_all();
}

TEST_F(UpstreamLinkTest, NewsOfJobsWaitsWhileTheUpstreamDoesNotRead) {
  make(4);
  join();
  const LeaseKey lease = host->running.begin()->first;
  JobNews news;
  news.log.assign(60'000, 'x');
  std::size_t sent = 0;
  while (sent < 100 && link->try_send_news(lease, 0, news, now)) ++sent;
  EXPECT_EQ(sent, 1 + UpstreamLink::kMostUnsent / 60'000);
  EXPECT_LE(link->output().size(), UpstreamLink::kMostUnsent + 70'000);
  link->output().consume(link->output().size());
  EXPECT_TRUE(link->try_send_news(lease, 0, news, now)) << "it reads again";
}

TEST_F(UpstreamLinkTest, ACutIsAnsweredFromThePositionAskedForOrLater) {
  make(8, 1);
  join();
  run(3);
  exchange();
  upstream->push({"CUT", "life-1", "5"});
  exchange();
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("YIELD", "life-1", "5")));
  run(1);
  upstream->push({"CUT", "life-1", "2"});
  exchange();
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("YIELD", "life-1", "4")));
  run_all();
}

TEST_F(UpstreamLinkTest, AReadyLeaseIsCutWithoutBeingBegun) {
  make(16, 1);
  join();
  ASSERT_EQ(upstream->leases.size(), 2U);
  upstream->push({"CUT", "life-2", "12"});
  exchange();
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("YIELD", "life-2", "12")));
  upstream->push({"CUT", "life-2", "8"});
  exchange();
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("YIELD", "life-2")));
  run_all();
}

TEST_F(UpstreamLinkTest, AStoppedLeaseIsYieldedWhenItsJobsHaveEnded) {
  make(8, 1);
  join();
  run(2);
  exchange();
  upstream->push({"STOP", "life-1"});
  exchange();
  EXPECT_TRUE(host->running.begin()->second.is_stopped);
  EXPECT_EQ(upstream->count_of("YIELD"), 0U);
  run();  // the host says that it has ended
  upstream->is_draining = true;
  exchange();
  EXPECT_EQ(upstream->count_of("YIELD"), 1U);
  EXPECT_TRUE(upstream->leases.empty());
}

TEST_F(UpstreamLinkTest, ALostLeaseIsStoppedAndItsResultsGoNowhere) {
  make(8, 1);
  join();
  const LeaseKey lost = host->running.begin()->first;
  run(2);
  upstream->lose("life-1");
  upstream->is_draining = true;
  exchange();
  EXPECT_TRUE(host->running.at(lost).is_stopped);
  EXPECT_EQ(link->stats().lost_leases, 1U);
  EXPECT_EQ(link->stats().kept_bytes, 0U);
  const std::size_t settles = upstream->count_of("SETTLE");
  link->settle(lost, JobStatus::kOk, 2, 1, bulk("r2"), now);
  EXPECT_EQ(link->stats().kept_bytes, 0U);
  run();
  exchange();
  EXPECT_EQ(upstream->count_of("SETTLE"), settles);
}

TEST_F(UpstreamLinkTest, JobsWhoseResultsWereRefusedGoBack) {
  make(8, 1);
  join();
  upstream->settle_refusal = "TOOBIG the jobs of the lease are in too many parts";
  run(8);
  exchange();
  upstream->settle_refusal.clear();
  EXPECT_EQ(upstream->count_of("YIELD"), 1U);
  run_all();
}

TEST_F(UpstreamLinkTest, ResultsForWhichTheUpstreamHadNoMemoryAreSentAgainOnTheNextConnection) {
  make(8, 1);
  join();
  upstream->settle_refusal = "QUEUEFULL unfinished commands of workers take too much";
  run(8);
  exchange();
  EXPECT_TRUE(link->is_broken());
  EXPECT_NE(link->stats().kept_bytes, 0U);
  upstream->settle_refusal.clear();
  disconnect();
  advance(1s);
  join();
  exchange();
  EXPECT_EQ(upstream->count_of("RECLAIM"), 1U);
  EXPECT_EQ(upstream->count_of("YIELD"), 0U);
  EXPECT_TRUE(upstream->all_recorded());
  EXPECT_EQ(link->stats().kept_bytes, 0U);
}

TEST_F(UpstreamLinkTest, ALeaseThatTheHostCannotRunIsYielded) {
  make(8, 1);
  host->refuses = true;
  connect();
  for (int i = 0; i < 3; ++i) {
    link->flush(now);
    upstream->feed(sent());
    deliver(upstream->take());
  }
  link->flush(now);
  upstream->feed(sent());
  EXPECT_GE(upstream->count_of("YIELD"), 1U);
}

TEST_F(UpstreamLinkTest, ADrainingUpstreamIsAskedForNothing) {
  make(1'000, 1);
  join();
  upstream->push({"DRAIN"});
  exchange();
  const std::size_t claims = upstream->count_of("CLAIM");
  for (int i = 0; i < 8; ++i) {
    run(8);
    exchange();
  }
  EXPECT_EQ(upstream->count_of("CLAIM"), claims);
}

TEST_F(UpstreamLinkTest, ARefusedClaimIsNotRepeatedAtOnce) {
  make(0, 1);
  upstream->is_draining = true;
  join();
  EXPECT_EQ(upstream->count_of("CLAIM"), 1U);
  advance(1s);
  exchange();
  EXPECT_EQ(upstream->count_of("CLAIM"), 1U);
}

TEST_F(UpstreamLinkTest, DrainingFinishesWhatRunsYieldsTheRestAndLeaves) {
  make(100, 2);
  join();
  run(2);
  exchange();
  link->drain(now);
  exchange();
  EXPECT_FALSE(link->is_done());
  run(1);  // what had begun has ended, nothing else was begun
  exchange();
  EXPECT_TRUE(link->is_done());
  EXPECT_EQ(upstream->commands.back().front(), "LEAVE");
  EXPECT_TRUE(upstream->leases.empty());
  EXPECT_TRUE(host->running.empty());
}

TEST_F(UpstreamLinkTest, WhatAnExecutorHasClaimedAndDoesNotStartGoesBackToo) {
  make(8, 1);
  join();
  const LeaseKey key = host->running.begin()->first;
  host->running.at(key).next = 4;  // one job runs, and three more are claimed
  link->drain(now);
  exchange();
  EXPECT_TRUE(host->running.at(key).is_finishing);
  EXPECT_FALSE(host->running.at(key).is_stopped);
  EXPECT_EQ(upstream->count_of("YIELD"), 1U);
  link->settle(key, JobStatus::kOk, 0, 1, bulk("r0"), now);
  host->running.erase(key);
  link->ended(key, now);
  exchange();
  EXPECT_EQ(upstream->count_of("YIELD"), 2U);
  EXPECT_TRUE(upstream->leases.empty());
  EXPECT_TRUE(link->is_done());
}

TEST_F(UpstreamLinkTest, ALeaseThatArrivesWhileItDrainsGoesBackAtOnce) {
  make(8, 1);
  connect();
  upstream->feed(sent());     // HELLO
  deliver(upstream->take());  // JOIN
  upstream->feed(sent());
  deliver(upstream->take());  // CLAIM
  upstream->feed(sent());
  link->drain(now);  // the lease is under way
  deliver(upstream->take());
  EXPECT_TRUE(host->running.empty());
  exchange();
  EXPECT_TRUE(upstream->leases.empty());
  EXPECT_TRUE(link->is_done());
  EXPECT_EQ(upstream->commands.back().front(), "LEAVE");
}

TEST_F(UpstreamLinkTest, StoppingAsksRunningJobsToStop) {
  make(100, 2);
  join();
  for (auto& [key, it] : host->running) it.next += 1;  // a job of each is running
  link->stop(now);
  for (const auto& [key, it] : host->running) EXPECT_TRUE(it.is_stopped);
  run();
  exchange();
  EXPECT_TRUE(link->is_done());
  EXPECT_TRUE(upstream->leases.empty());
}

TEST_F(UpstreamLinkTest, ALateAnswerToJoinBreaksTheConnection) {
  make(0);
  connect();
  ASSERT_EQ(link->next_timer(), now + options.join_timeout);
  advance(options.join_timeout);
  EXPECT_TRUE(link->is_broken());
}

TEST_F(UpstreamLinkTest, ALeaseThatNoUpstreamCanMeanBreaksTheConnection) {
  constexpr std::int64_t kDay = 24 * 3600 * 1000;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::pair<std::int64_t, std::int64_t> refused[] = {{-1, kDay},       {0, kDay},  {kMost, kDay},
                                                           {kDay + 1, kDay}, {1, kMost}, {1, -1}};
  for (const auto& [beat_ms, lease_ms] : refused) {
    make(0);
    upstream->beat_ms = beat_ms;
    upstream->lease_ms = lease_ms;
    connect();
    exchange();
    EXPECT_TRUE(link->is_broken()) << beat_ms << " of " << lease_ms;
    EXPECT_THAT(link->trouble(), StartsWith("the reply to JOIN ")) << beat_ms << " of " << lease_ms;
  }
  make(0);
  upstream->beat_ms = upstream->lease_ms = kDay;
  join();
  EXPECT_EQ(link->joined().lease, std::chrono::hours(24));
}

TEST_F(UpstreamLinkTest, WhatIsNotTheProtocolBreaksTheConnection) {
  for (const char* bytes : {"HTTP/1.1 400\r\n", "*99999999999999\r\n", "$5\r\nabcdefg\r\n", "+OK\r\n+OK\r\n",
                            "%1\r\n+a\r\n:1\r\n:1\r\n"}) {
    make(0);
    connect();
    deliver(bytes);
    EXPECT_TRUE(link->is_broken()) << bytes;
  }
}

}  // namespace
}  // namespace locksley::daemon::test
