// How the link names its leases, and their attempts, to an upstream that it has joined again.
#include <gmock/gmock.h>

#include <string>

#include "tests/unit/daemon/upstream/link/link_fixture.h"

namespace locksley::daemon::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class UpstreamReclaimTest : public LinkFixture {
 protected:
  // The jobs of a lease end, and the connection before their results are acknowledged.
  void keep_results(std::uint64_t jobs) {
    make(jobs, 1);
    upstream->lease_jobs = jobs;
    join();
    run(jobs);
    disconnect();
    ASSERT_GT(link->stats().kept_bytes, 0U);
  }
  // It connects again and again for this long, and JOIN is answered so.
  void refuse(const std::string& reply, Nanoseconds time) {
    upstream->refuses_join = reply;
    for (const Nanoseconds end = now + time; now < end && !link->is_done();) {
      advance(100ms);
      if (!link->wants_connection(now)) continue;
      connect();
      exchange();
      ASSERT_TRUE(link->is_broken());
      disconnect();
    }
    upstream->refuses_join.clear();
  }
};

TEST_F(UpstreamReclaimTest, ALeaseSurvivesEveryRestartOfTheUpstream) {
  make(16, 1);
  join();
  std::string name = "life-1";
  for (const char* const told : {"3", "4", "5"}) {
    disconnect();
    ++upstream->attempt;
    upstream->commands.clear();
    reconnect();
    exchange();
    EXPECT_THAT(upstream->commands,
                Contains(ElementsAre("RECLAIM", "7", told, "0", "8", "SLOT", "0", "LEASE", name)));
    EXPECT_EQ(link->stats().lost_leases, 0U);
    name = "life-" + std::to_string(std::stoi(name.substr(5)) + 2);  // the ready lease has one, too
  }
  run(8);  // and the ready lease begins
  EXPECT_EQ(host->last.attempt, 6U);
  run_all();
}

TEST_F(UpstreamReclaimTest, AnUpstreamThatDoesNotTellTheAttemptIsToldTheOneOfTheClaim) {
  make(8, 1);
  upstream->tells_attempt = false;
  join();
  for (int i = 0; i < 2; ++i) {
    disconnect();
    reconnect();
    exchange();
  }
  EXPECT_EQ(link->stats().reclaimed_leases, 2U);
  run_all();
}

// Its parser refuses the option.
TEST_F(UpstreamReclaimTest, AnUpstreamThatDoesNotKnowTheNamesOfLeasesIsAskedWithoutThem) {
  make(32, 2);
  upstream->knows_former = false;
  join();
  run(2);
  for (int i = 0; i < 2; ++i) {
    disconnect();
    upstream->commands.clear();
    reconnect();
    exchange();
    EXPECT_THAT(upstream->commands, Contains(Contains("LEASE"))) << "it may have been replaced";
    EXPECT_EQ(link->stats().lost_leases, 0U);
  }
  run_all();
  drain_it();
}

TEST_F(UpstreamReclaimTest, ALeaseThatALostReplyHasRenamedIsReclaimedByTheNameThatIsKnown) {
  make(8, 1);
  join();
  disconnect();
  reconnect();
  link->flush(now);
  for (int i = 0; i < 2; ++i) {  // HELLO and JOIN
    upstream->feed(sent());
    deliver(upstream->take());
  }
  upstream->feed(sent());  // RECLAIM, whose reply never arrives
  disconnect();
  upstream->commands.clear();
  reconnect();
  exchange();
  EXPECT_THAT(upstream->commands,
              Contains(ElementsAre("RECLAIM", "7", "3", "0", "8", "SLOT", "0", "LEASE", "life-1")));
  run_all();
}

// Else they would take the memory of the connection that serves their lane now, for ever.
TEST_F(UpstreamReclaimTest, ALinkThatIsDrainedDropsItsResultsWhereItHasNoHandlersForALease) {
  keep_results(8);
  link->drain(now);
  const std::uint64_t kept_bytes = link->stats().kept_bytes;
  refuse("NOHANDLER no handler 'echo' for remote workers", 9s);
  EXPECT_FALSE(link->is_done());
  EXPECT_EQ(link->stats().kept_bytes, kept_bytes);
  refuse("NOHANDLER no handler 'echo' for remote workers", 10s);
  EXPECT_TRUE(link->is_done());
  EXPECT_EQ(link->stats().kept_bytes, 0U);
  EXPECT_EQ(link->stats().dropped_jobs, 8U);
  EXPECT_EQ(link->stats().dropped_bytes, kept_bytes);
}

TEST_F(UpstreamReclaimTest, ALinkThatIsDrainedStopsWhatRunsWhereItHasNoHandlersForALease) {
  make(8, 1);
  join();
  run(2);
  disconnect();
  link->drain(now);
  refuse("NOPERM this user has no permissions to use the handler 'echo'", 20s);
  EXPECT_EQ(link->stats().dropped_jobs, 2U);
  EXPECT_EQ(link->stats().dropped_leases, 1U);
  ASSERT_EQ(host->running.size(), 1U);
  EXPECT_TRUE(host->running.begin()->second.is_stopped);
  EXPECT_FALSE(link->is_done());
  run();
  EXPECT_TRUE(link->is_done());
  EXPECT_EQ(link->stats().kept_bytes, 0U);
}

// The upstream takes them for as long as no other worker has taken the jobs.
TEST_F(UpstreamReclaimTest, ResultsThatMayStillBeHandedInAreKept) {
  keep_results(8);
  refuse("NOHANDLER no handler 'echo' for remote workers", 60s);  // a person may put it right
  link->drain(now);
  for (Nanoseconds end = now + 60s; now < end; advance(1s)) {
    if (!link->wants_connection(now)) continue;
    link->disconnected("cannot connect", now);
  }
  refuse("READONLY no daemon is active: retry later", 60s);
  refuse("LOADING this daemon has taken over, and reads the batches: retry later", 60s);
  refuse("DRAINING the daemon is about to stop", 60s);
  refuse("TOOBIG the workers of the user would have more than 8 slots together", 60s);
  EXPECT_GT(link->stats().kept_bytes, 0U);
  reconnect();
  exchange();
  EXPECT_TRUE(upstream->all_recorded());
  EXPECT_TRUE(link->is_done());
  EXPECT_EQ(link->stats().dropped_jobs, 0U);
}

TEST_F(UpstreamReclaimTest, TheTimeWithoutHandlersBeginsAnewWithTheDrainAndAfterAnyOtherAnswer) {
  const std::string no_handler = "NOHANDLER no handler 'echo' for remote workers";
  keep_results(8);
  refuse(no_handler, 60s);
  link->drain(now);
  refuse(no_handler, 9s);
  EXPECT_GT(link->stats().kept_bytes, 0U);
  advance(5s);
  link->disconnected("cannot connect", now);
  refuse(no_handler, 9s);
  EXPECT_GT(link->stats().kept_bytes, 0U);
  refuse("LOADING this daemon has taken over, and reads the batches: retry later", 6s);
  refuse(no_handler, 9s);
  EXPECT_GT(link->stats().kept_bytes, 0U);
  upstream->holds_settles = true;
  reconnect();
  exchange();
  ASSERT_TRUE(link->is_joined());
  disconnect();
  refuse(no_handler, 9s);
  EXPECT_GT(link->stats().kept_bytes, 0U);
  EXPECT_EQ(link->stats().dropped_leases, 0U);
}

}  // namespace
}  // namespace locksley::daemon::test
