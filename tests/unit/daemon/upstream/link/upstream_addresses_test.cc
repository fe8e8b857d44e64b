// A link with the addresses of several daemons, of which one serves: which it tries when, and what
// becomes of its leases.
#include <gmock/gmock.h>

#include "tests/unit/daemon/upstream/link/link_fixture.h"

namespace locksley::daemon::test {
namespace {

using ::testing::ElementsAre;

class UpstreamAddressesTest : public LinkFixture {
 protected:
  void list(const char* addresses) { options.addresses = client::parse_addresses(addresses, 7771).value(); }
  std::string address() const { return link->address().text(); }
  // The attempt at the present address fails.
  void fail() { link->disconnected("refused", now); }
  // JOIN is answered so, and the connection ends.
  void refused(const std::string& reply) {
    upstream->refuses_join = reply;
    connect();
    exchange();
    EXPECT_TRUE(link->is_broken());
    disconnect();
    upstream->refuses_join.clear();
  }
  // Moves the clock to the next attempt. How long that took.
  Nanoseconds wait() {
    const Nanoseconds before = now;
    while (!link->wants_connection(now) && now - before < 1min) advance(10ms);
    return now - before;
  }
};

TEST_F(UpstreamAddressesTest, EachIsTriedBeforeAPause) {
  list("a:1,b:2,c");
  make(0);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(address(), "a:1");
    EXPECT_TRUE(link->wants_connection(now));
    fail();
    EXPECT_EQ(address(), "b:2");
    EXPECT_TRUE(link->wants_connection(now));
    fail();
    EXPECT_EQ(address(), "c:7771");
    EXPECT_TRUE(link->wants_connection(now));
    fail();
    EXPECT_FALSE(link->wants_connection(now)) << "the round is over";
    EXPECT_GE(wait(), 50ms);
  }
}

TEST_F(UpstreamAddressesTest, TheUserAndPasswordGoToEach) {
  list("redis://renderer:secret@a:1,b:2");
  make(0);
  fail();
  join();
  EXPECT_THAT(upstream->commands[0], ElementsAre("HELLO", "3", "AUTH", "renderer", "secret"));
}

TEST_F(UpstreamAddressesTest, TheDaemonThatAStandbyNamesIsTriedAtOnce) {
  list("a:1,b:2");
  make(4);
  refused("READONLY the active daemon is c:3");
  EXPECT_EQ(address(), "c:3");
  EXPECT_TRUE(link->wants_connection(now));
  join();
  run_all();
}

TEST_F(UpstreamAddressesTest, OneThatReadsItsBatchesIsAskedOnceMoreAfterAPause) {
  list("a:1,b:2");
  make(4);
  fail();
  for (const char* const next : {"b:2", "a:1", "a:1"}) {
    refused("LOADING this daemon has taken over, and reads the batches: retry later");
    EXPECT_EQ(address(), next);
    EXPECT_GE(wait(), 50ms);
  }
  join();
  run_all();
}

TEST_F(UpstreamAddressesTest, StandbysThatNameEachOtherAreNotAskedWithoutAPause) {
  list("a:1,b:2");
  make(0);
  int attempts = 0;
  while (link->wants_connection(now)) {
    ASSERT_LT(++attempts, 10);
    refused("READONLY the active daemon is " + std::string(address() == "a:1" ? "b:2" : "a:1"));
  }
}

TEST_F(UpstreamAddressesTest, ARefusalThatIsOverIsNotTakenForTheReasonOfALaterFailure) {
  list("a:1,b:2");
  make(0);
  refused("READONLY the active daemon is c:3");
  fail();
  EXPECT_EQ(link->trouble(), "refused");
  EXPECT_EQ(address(), "a:1");
}

TEST_F(UpstreamAddressesTest, AnUpstreamThatClosesWhatItHasLetJoinIsAskedAgainAfterAPause) {
  list("a:1,b:2");
  make(0);
  for (int i = 0; i < 3; ++i) {
    join();
    disconnect();
    EXPECT_EQ(address(), "a:1");
    EXPECT_FALSE(link->wants_connection(now));
    wait();
  }
}

TEST_F(UpstreamAddressesTest, WhatJoinNamesIsTriedAfterTheConfiguredOnes) {
  list("redis://renderer:secret@a:1");
  make(0);
  upstream->addresses = {"a:1", "b:2", "redis://evil:1", "other@c:3", "c"};
  join();
  disconnect();
  EXPECT_EQ(address(), "a:1");
  wait();
  fail();
  EXPECT_EQ(address(), "b:2");
  EXPECT_TRUE(link->wants_connection(now));
  EXPECT_EQ(link->address().user, "renderer");
  fail();
  EXPECT_EQ(address(), "a:1");
  EXPECT_FALSE(link->wants_connection(now));
}

TEST_F(UpstreamAddressesTest, WithoutEncryptionNoDaemonSendsItToAnotherMachine) {
  list("127.0.0.1:1");
  options.reach = client::Route::Reach::kThisMachine;
  make(0);
  upstream->addresses = {"10.0.0.1:2", "queue-2:2", "127.0.0.1.evil:2", "127.0.0.1:2"};
  join();
  disconnect();
  wait();
  refused("READONLY the active daemon is 10.0.0.1:2");
  EXPECT_EQ(address(), "127.0.0.1:2");
  fail();
  EXPECT_EQ(address(), "127.0.0.1:1");
  EXPECT_FALSE(link->wants_connection(now)) << "there are no others";
}

// What FakeUpstream has is the store; the addresses are those of two daemons that have it one after
// the other.
TEST_F(UpstreamAddressesTest, LeasesAreReclaimedAndResultsHandedInAtTheAddressThatServesNext) {
  list("a:1,b:2");
  make(16);
  join();
  ASSERT_EQ(host->running.size(), 2U);
  disconnect();
  run(3);  // results that no daemon knows
  while (address() != "b:2") {
    wait();
    fail();
  }
  join();
  EXPECT_GE(upstream->count_of("RECLAIM"), 2U);
  EXPECT_EQ(link->stats().lost_leases, 0U);
  run_all();
}

TEST_F(UpstreamAddressesTest, AnUpstreamThatHangsIsLeftForTheNextAddress) {
  list("a:1,b:2");
  make(16);
  join();
  hang();
  disconnect();
  wait();
  EXPECT_EQ(address(), "a:1");
  connect();
  hang();
  disconnect();
  EXPECT_EQ(address(), "b:2");
  EXPECT_TRUE(link->wants_connection(now));
  join();
  EXPECT_EQ(link->stats().lost_leases, 0U);
  run_all();
}

TEST_F(UpstreamAddressesTest, WhileItHoldsLeasesNoPauseIsLongerThanASecond) {
  list("a:1,b:2");
  make(16);
  join();
  disconnect();
  for (int round = 0; round < 10; ++round) {
    EXPECT_LE(wait(), 1'010ms);
    refused("READONLY the active daemon is gone:1");
    while (link->wants_connection(now)) fail();
  }
}

TEST_F(UpstreamAddressesTest, LeasesOfAnotherStoreAreDroppedAndNothingOfThemIsSent) {
  list("a:1,b:2");
  make(16);
  join();
  ASSERT_EQ(host->running.size(), 2U);
  disconnect();
  run(3);
  upstream->store = "store-2";
  upstream->commands.clear();
  wait();
  join();
  EXPECT_EQ(upstream->count_of("RECLAIM"), 0U);
  EXPECT_EQ(upstream->count_of("SETTLE"), 0U);
  EXPECT_EQ(link->stats().kept_bytes, 0U);
  EXPECT_EQ(link->joined().store, "store-2");
  std::size_t stopped = 0;
  for (const auto& [key, it] : host->running) stopped += it.is_stopped ? 1U : 0U;
  EXPECT_EQ(stopped, 2U) << "what ran for the other store stops";
  run_all();  // the slots are free for this store's jobs
}

}  // namespace
}  // namespace locksley::daemon::test
