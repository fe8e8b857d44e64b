// The link when connections break, at every byte, in either direction, and at random; and when the
// upstream hangs.
#include <gmock/gmock.h>

#include <random>

#include "tests/unit/daemon/upstream/link/link_fixture.h"

namespace locksley::daemon::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::StartsWith;

class UpstreamFaultsTest : public LinkFixture {
 protected:
  // Runs all jobs. The connection breaks after so many bytes in all: what was under way then is
  // lost.
  void run_with_a_break_after(std::size_t bytes_until_break, std::uint64_t jobs, std::uint32_t slots) {
    make(jobs, slots);
    upstream->lease_jobs = 3;
    connect();
    std::size_t passed = 0;
    bool has_broken = false;
    // How many of `bytes` arrive.
    const auto pass = [&](std::string bytes) {
      if (has_broken || passed + bytes.size() <= bytes_until_break) {
        passed += bytes.size();
        return bytes;
      }
      bytes.resize(bytes_until_break - passed);
      passed = bytes_until_break;
      return bytes;
    };
    for (int round = 0; round < 2'000 && !upstream->all_recorded(); ++round) {
      link->flush(now);
      upstream->feed(pass(sent()));
      deliver(pass(upstream->take()));
      ASSERT_FALSE(link->is_broken()) << link->trouble();
      if (round % 3 == 0) run(2);
      if (!has_broken && passed == bytes_until_break) {
        has_broken = true;
        disconnect();
        run(1);
        reconnect();
      }
    }
    exchange();
    EXPECT_TRUE(upstream->all_recorded()) << "after " << bytes_until_break << " bytes";
    for (const int times : upstream->recorded) EXPECT_EQ(times, 1);
    drain_it();
  }
};

TEST_F(UpstreamFaultsTest, ABreakAfterAnyByteLosesNothingAndRecordsNothingTwice) {
  make(12, 2);
  connect();
  for (std::size_t bytes = 1; bytes < 2'500 && !::testing::Test::HasFailure(); ++bytes)
    run_with_a_break_after(bytes, 12, 2);
}

TEST_F(UpstreamFaultsTest, ResultsWithoutAnswerAreSentAgainUnderTheNewNameOfTheirLease) {
  make(8, 1);
  join();
  run(4);
  sent();  // it never arrives
  disconnect();
  reconnect();
  exchange();
  EXPECT_THAT(upstream->commands,
              Contains(ElementsAre("RECLAIM", "7", "3", "0", "8", "SLOT", "0", "LEASE", "life-1")));
  EXPECT_THAT(upstream->commands,
              Contains(ElementsAre("SETTLE", "life-2", "ok", "0", "r0", "r1", "r2", "r3")));
  run_all();
}

TEST_F(UpstreamFaultsTest,
       ResultsThatARestartedUpstreamHasForgottenAreHandedInBeforeOtherLeasesAreReclaimed) {
  make(8, 1);
  upstream->lease_jobs = 2;
  upstream->holds_settles = true;
  join();
  run(2);  // one has ended without an answer, the other one runs
  exchange();
  ASSERT_GT(link->stats().kept_bytes, 0U);
  is_connected = false;
  upstream = std::make_unique<FakeUpstream>(8);
  link->disconnected("cut", now);
  reconnect();
  exchange();
  std::vector<std::string> order;
  for (const Words& words : upstream->commands) {
    if (words[0] == "RECLAIM" || words[0] == "SETTLE") order.push_back(words[0] + " " + words[3]);
  }
  EXPECT_THAT(order, ElementsAre("RECLAIM 0", "RECLAIM 2", "SETTLE 0"));
  EXPECT_EQ(link->stats().kept_bytes, 0U);
  run_all();
}

TEST_F(UpstreamFaultsTest, WhatAnotherWorkerHasTakenIsStoppedAndForgotten) {
  make(16, 1);
  join();
  run(2);
  exchange();
  disconnect();
  upstream->settle_elsewhere(2, 8);
  const LeaseKey lost = host->running.begin()->first;
  run(2);
  reconnect();
  exchange();
  EXPECT_EQ(link->stats().lost_leases, 1U);
  EXPECT_TRUE(host->running.at(lost).is_stopped);
  run_all();
}

TEST_F(UpstreamFaultsTest, WhatAnotherWorkerHasTakenOfTheEndOfALeaseIsNotRun) {
  make(8, 1);
  join();
  disconnect();
  upstream->settle_elsewhere(5, 8);
  reconnect();
  exchange();
  EXPECT_EQ(host->running.begin()->second.range, (IndexRange{0, 5}));
  run_all();
}

TEST_F(UpstreamFaultsTest, ALeaseWhoseRunEndsWhileItIsReclaimedIsHandedIn) {
  make(4, 1);
  join();
  run(2);
  disconnect();
  reconnect();
  link->flush(now);
  upstream->feed(sent());     // HELLO
  deliver(upstream->take());  // JOIN
  upstream->feed(sent());
  deliver(upstream->take());
  upstream->feed(sent());  // RECLAIM
  run(2);                  // and it ends before the answer is here
  exchange();
  EXPECT_TRUE(upstream->all_recorded());
  drain_it();
}

TEST_F(UpstreamFaultsTest, KeptResultsOfJobsThatRunElsewhereAreDroppedAndTheOthersOfTheirRunAreSent) {
  make(8, 1);
  join();
  disconnect();
  run(6);
  upstream->settle_elsewhere(0, 2);
  upstream->settle_elsewhere(4, 5);
  reconnect();
  exchange();
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("SETTLE", "life-2", "ok", "2", "r2", "r3")));
  EXPECT_THAT(upstream->commands, Contains(ElementsAre("SETTLE", "life-2", "ok", "5", "r5")));
  run_all();
  drain_it();
}

TEST_F(UpstreamFaultsTest, LaterResultsOfJobsThatRunElsewhereAreDroppedToo) {
  make(8, 1);
  join();
  disconnect();
  upstream->settle_elsewhere(0, 3);
  reconnect();
  exchange();
  run(8);
  exchange();
  EXPECT_THAT(upstream->commands,
              Contains(ElementsAre("SETTLE", "life-2", "ok", "3", "r3", "r4", "r5", "r6", "r7")));
  run_all();
  drain_it();
}

TEST_F(UpstreamFaultsTest, AnEndedLeaseOfWhichAPartRunsElsewhereHandsInTheRestAndYieldsNothing) {
  make(8, 1);
  join();
  disconnect();
  run(8);
  upstream->settle_elsewhere(2, 5);
  reconnect();
  exchange();
  EXPECT_EQ(upstream->count_of("SETTLE"), 2U);
  EXPECT_EQ(upstream->count_of("YIELD"), 0U);
  run_all();
  drain_it();
}

TEST_F(UpstreamFaultsTest, AYieldThatWasLostWithItsConnectionIsSentAgain) {
  make(8, 1);
  join();
  run(2);
  upstream->push({"STOP", "life-1"});
  deliver(upstream->take());
  run();   // the lease ends
  sent();  // SETTLE and YIELD never arrive
  disconnect();
  reconnect();
  exchange();
  EXPECT_EQ(upstream->count_of("YIELD"), 1U);
  run_all();
}

TEST_F(UpstreamFaultsTest, AnUpstreamThatOwesTheReplyToABeatIsLeftAfterThirtySeconds) {
  for (const std::uint64_t jobs : {16U, 8U}) {  // with 8 jobs, a CLAIM waits, which BEAT ends
    make(jobs, 1);
    join();
    EXPECT_EQ(hang(), 3'333ms + 30s) << jobs;
    EXPECT_THAT(link->trouble(), StartsWith("it has sent nothing for 30 s"));
    disconnect();
    reconnect();
    run_all();
    EXPECT_EQ(link->stats().lost_leases, 0U);
  }
}

TEST_F(UpstreamFaultsTest, AClaimMayWaitAsLongAsItsBlockAndThirtySeconds) {
  make(0, 1);
  join();
  advance(89s);
  EXPECT_FALSE(link->is_broken());
  deliver("_\r\n");
  EXPECT_EQ(hang(), 90s) << "for the next one";
}

TEST_F(UpstreamFaultsTest, RepliesThatCameWhileThisProcessWasPausedAreRead) {
  make(16, 1);
  join();
  advance(3'333ms);
  upstream->feed(sent());  // BEAT
  advance(5min);
  EXPECT_FALSE(link->is_broken());
  deliver(upstream->take());
  EXPECT_FALSE(link->is_broken());
  run_all();
}

TEST_F(UpstreamFaultsTest, ALateLookForSilenceStartsTheTimeAnewOnce) {
  make(16, 1);
  join();
  advance(3'333ms);
  advance(5min);
  EXPECT_EQ(hang(), 30s);
  disconnect();
  reconnect();
  exchange();
  advance(3'333ms);
  advance(5min);
  EXPECT_FALSE(link->is_broken());
  advance(5min);
  EXPECT_TRUE(link->is_broken());
}

TEST_F(UpstreamFaultsTest, AnUpstreamThatTakesResultsSlowlyIsNotLeft) {
  make(8, 1);
  join();
  run(1);
  for (int i = 0; i < 5; ++i) {
    now += 20s;
    link->sent(1, now);
    link->advance(now);
    EXPECT_FALSE(link->is_broken());
  }
  advance(30s);
  EXPECT_TRUE(link->is_broken()) << "it takes no more";
}

TEST_F(UpstreamFaultsTest, ADrainWhileTheUpstreamIsAwayHandsInTheResultsLater) {
  make(20, 1);
  join();
  run(3);
  disconnect();
  link->drain(now);
  run(1);
  EXPECT_FALSE(link->is_done());
  reconnect();
  exchange();
  EXPECT_TRUE(link->is_done());
  EXPECT_TRUE(upstream->leases.empty());
  EXPECT_EQ(upstream->recorded[2], 1);
}

TEST_F(UpstreamFaultsTest, PausesBetweenAttemptsGrowFromATenthOfASecondToFiveSeconds) {
  make(0);
  std::vector<Nanoseconds> pauses;
  for (int i = 0; i < 12; ++i) {
    link->disconnected("refused", now);
    ASSERT_TRUE(link->next_timer().has_value());
    pauses.push_back(*link->next_timer() - now);
    now = *link->next_timer();
    EXPECT_TRUE(link->wants_connection(now));
  }
  EXPECT_GE(pauses.front(), 50ms);
  EXPECT_LE(pauses.front(), 100ms);
  for (std::size_t i = 7; i < pauses.size(); ++i) {
    EXPECT_GE(pauses[i], 2'500ms);
    EXPECT_LE(pauses[i], 5'000ms);
  }
  join();
  disconnect();
  EXPECT_LE(*link->next_timer() - now, 100ms);  // a JOIN that succeeded starts them anew
}

TEST_F(UpstreamFaultsTest, RandomFaultsLoseNothingAndRecordNothingTwice) {
  for (std::uint64_t seed = 1; seed <= 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
    make(60, static_cast<std::uint32_t>(1 + random() % 3));
    upstream->lease_jobs = 1 + random() % 7;
    connect();
    for (int step = 0; step < 20'000 && !upstream->all_recorded(); ++step) {
      if (!is_connected) {
        reconnect();
        continue;
      }
      link->flush(now);
      if (one_in(2)) upstream->feed(sent());
      if (one_in(2)) deliver(upstream->take());
      if (one_in(3)) run(1 + random() % 4);
      if (one_in(4)) advance(Nanoseconds(random() % 2'000'000'000));
      if (!upstream->leases.empty() && one_in(10)) {
        const auto& [name, lease] = *upstream->leases.begin();
        upstream->push({"CUT", name, std::to_string(lease.first + random() % lease.count)});
      }
      if (!upstream->leases.empty() && one_in(30)) upstream->push({"STOP", upstream->leases.rbegin()->first});
      if (!upstream->leases.empty() && one_in(30))
        upstream->lose(std::string(upstream->leases.begin()->first));
      if (one_in(20)) upstream->holds_settles = true;
      if (one_in(5)) upstream->release();
      if (one_in(25)) disconnect();
      ASSERT_FALSE(link->is_broken()) << link->trouble();
    }
    upstream->release();
    if (!is_connected) reconnect();
    exchange();
    EXPECT_TRUE(upstream->all_recorded());
    for (const int times : upstream->recorded) EXPECT_EQ(times, 1);
    drain_it();
  }
}

}  // namespace
}  // namespace locksley::daemon::test
