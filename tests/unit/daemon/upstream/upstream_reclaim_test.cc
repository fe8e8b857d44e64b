// How the link names its leases, and their attempts, to an upstream that it has joined again.
#include <gmock/gmock.h>

#include <string>

#include "tests/unit/daemon/upstream/link_fixture.h"

namespace locksley::daemon::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class UpstreamReclaimTest : public LinkFixture {};

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

}  // namespace
}  // namespace locksley::daemon::test
