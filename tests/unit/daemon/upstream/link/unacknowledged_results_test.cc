// Results until they are acknowledged: how they are cut into commands, kept, sent again, dropped.
#include "daemon/upstream/link/unacknowledged_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

HeldLease lease_of(LeaseKey key, const char* name) {
  HeldLease lease;
  lease.key = key;
  lease.name = name;
  lease.range = {0, 100};
  return lease;
}

// Jobs first, first + 1, … with outputs of `bytes`.
KeptResults run_of(std::uint64_t first, std::uint64_t count, std::size_t bytes = 1) {
  KeptResults run;
  run.first = first;
  run.count = count;
  for (std::uint64_t i = 0; i < count; ++i)
    run.outputs += "$" + std::to_string(bytes) + "\r\n" + std::string(bytes, 'x') + "\r\n";
  return run;
}

class UnacknowledgedResultsTest : public ::testing::Test {
 protected:
  void keep(std::uint64_t first, std::uint64_t count, std::size_t bytes = 1) {
    results.keep(lease, run_of(first, count, bytes));
  }
  std::string sent() {
    std::string bytes = pipeline.output().to_string();
    pipeline.output().consume(bytes.size());
    std::erase(bytes, '\r');
    return bytes;
  }
  void reconnect(const char* name) {
    results.connection_lost();
    lease.name = name;
  }

  CommandPipeline pipeline{60s, 30s, 0s};
  UnacknowledgedResults results{pipeline};
  HeldLease lease = lease_of(1, "w/1");
};

TEST_F(UnacknowledgedResultsTest, ARunIsOneCommandAndStaysUntilItIsDropped) {
  keep(4, 2);
  EXPECT_EQ(sent(), "*6\n$6\nSETTLE\n$3\nw/1\n$2\nok\n$1\n4\n$1\nx\n$1\nx\n");
  EXPECT_EQ(lease.settled, 2U);
  EXPECT_EQ(results.jobs(), 2U);
  EXPECT_EQ(results.bytes(), 14U);
  ASSERT_EQ(lease.results.size(), 1U);
  const std::uint64_t id = lease.results.front();
  EXPECT_EQ(pipeline.last()->results, id);
  EXPECT_EQ(results.drop(&lease, id), 2U);
  EXPECT_FALSE(results.drop(&lease, id)) << "it is gone";
  EXPECT_TRUE(lease.results.empty());
  EXPECT_EQ(results.bytes(), 0U);
}

TEST_F(UnacknowledgedResultsTest, WithoutANameTheyWaitAndAreHandedInWithTheNextOne) {
  lease.name.clear();
  keep(0, 3);
  EXPECT_EQ(sent(), "");
  reconnect("w/2");
  EXPECT_EQ(results.hand_in(lease), 3U);
  EXPECT_THAT(sent(), HasSubstr("w/2"));
  EXPECT_EQ(lease.settled, 3U) << "they count once";
  EXPECT_EQ(results.jobs(), 3U);
}

TEST_F(UnacknowledgedResultsTest, OnlyJobsThatTheLeaseStillHoldsAreHandedIn) {
  keep(0, 10);
  sent();
  reconnect("w/2");
  lease.held = {{2, 4}, {8, 20}};
  EXPECT_EQ(results.hand_in(lease), 4U);
  const std::string bytes = sent();
  EXPECT_THAT(bytes, HasSubstr("$1\n2\n$1\nx\n$1\nx\n*"));
  EXPECT_THAT(bytes, HasSubstr("$1\n8\n$1\nx\n$1\nx\n"));
  EXPECT_EQ(lease.settled, 4U);
  EXPECT_EQ(lease.results.size(), 2U);
  EXPECT_EQ(results.bytes(), 4U * 7U);
}

TEST_F(UnacknowledgedResultsTest, AnOutputThatTheUpstreamDoesNotTakeIsAnErrorAndStandsAlone) {
  results.set_longest_output(40);
  keep(0, 1, 41);
  const std::string bytes = sent();
  EXPECT_THAT(bytes, HasSubstr("$5\nerror\n$1\n0\n"));
  EXPECT_THAT(bytes, HasSubstr("its output is 41 bytes long, and the upstream daemon takes at most 40"));
  keep(1, 9, 7);  // 13 bytes each: three to a command
  EXPECT_EQ(lease.results.size(), 1U + 3U);
  EXPECT_THAT(sent(), Not(HasSubstr("error")));
  EXPECT_EQ(lease.settled, 10U);
}

TEST_F(UnacknowledgedResultsTest, NewsGoesBeforeItsResult) {
  KeptResults run = run_of(0, 1);
  run.news = {"0", "PROGRESS", "9"};
  results.keep(lease, std::move(run));
  EXPECT_THAT(sent(),
              ::testing::StartsWith("*5\n$4\nNOTE\n$3\nw/1\n$1\n0\n$8\nPROGRESS\n$1\n9\n*5\n$6\nSETTLE\n"));
}

TEST_F(UnacknowledgedResultsTest, ALostLeaseLeavesNothing) {
  keep(0, 2);
  keep(2, 2);
  HeldLease other = lease_of(2, "w/2");
  results.keep(other, run_of(5, 1));
  results.drop_all_of(lease);
  EXPECT_TRUE(lease.results.empty());
  EXPECT_EQ(results.jobs(), 1U) << "of the other lease";
}

}  // namespace
}  // namespace locksley::daemon
