// The label `tenant` is bounded, and its counters never fall.
#include "daemon/metrics/tenant_labels.h"

#include <gmock/gmock.h>

#include <chrono>

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

TenantView tenant(std::string name, std::uint64_t queued, Nanoseconds busy = 0s, double share = 0,
                  double received = 0) {
  TenantView view;
  view.tenant = std::move(name);
  view.queued = queued;
  view.busy = busy;
  view.share = share;
  view.received = received;
  return view;
}

std::vector<std::string> names(const std::map<std::string, TenantNumbers>& numbers) {
  std::vector<std::string> result;
  for (const auto& [name, unused] : numbers) result.push_back(name);
  return result;
}

TEST(TenantLabelsTest, AddsUpWhatSeveralLanesSay) {
  TenantLabels labels(50);
  const auto read = labels.read({tenant("a", 1, 2s, 0.5, 0.25), tenant("a", 10, 3s, 0.25, 0.25)});
  ASSERT_THAT(names(read), ElementsAre("a"));
  EXPECT_EQ(read.at("a").queued, 11u);
  EXPECT_DOUBLE_EQ(read.at("a").busy_seconds, 5);
  EXPECT_DOUBLE_EQ(read.at("a").share, 0.75);
  EXPECT_DOUBLE_EQ(read.at("a").received, 0.5);
}

TEST(TenantLabelsTest, TheFirstKeepTheirLabelsAndTheOthersAreOne) {
  TenantLabels labels(2);
  labels.read({tenant("m", 1), tenant("n", 1)});
  const auto read = labels.read({tenant("a", 5, 1s), tenant("b", 6, 2s), tenant("m", 1), tenant("n", 1)});
  ASSERT_THAT(names(read), ElementsAre("m", "n", "other"));
  EXPECT_EQ(read.at("other").queued, 11u);
  EXPECT_DOUBLE_EQ(read.at("other").busy_seconds, 3);
}

TEST(TenantLabelsTest, ATenantThatHasGoneKeepsItsLabelAndItsCounter) {
  TenantLabels labels(1);
  EXPECT_THAT(names(labels.read({tenant("m", 1, 3s)})), ElementsAre("m"));
  auto read = labels.read({});
  ASSERT_THAT(names(read), ElementsAre("m"));
  EXPECT_DOUBLE_EQ(read.at("m").busy_seconds, 3);
  EXPECT_EQ(read.at("m").queued, 0u);
  read = labels.read({tenant("a", 1), tenant("m", 1, 2s)});
  ASSERT_THAT(names(read), ElementsAre("m", "other"));
  EXPECT_DOUBLE_EQ(read.at("m").busy_seconds, 5) << "a ring counts it from 0 again";
}

// Busy time that was reported under a tenant's own label is not counted again.
TEST(TenantLabelsTest, ALowerLimitTakesLabelsAwayAndAHigherOneGivesThem) {
  TenantLabels labels(3);
  labels.read({tenant("a", 1, 1s), tenant("b", 1, 10s), tenant("c", 1, 100s)});
  labels.set_limit(1);
  auto read = labels.read({tenant("a", 1, 1s), tenant("b", 1, 12s), tenant("c", 1, 100s)});
  ASSERT_THAT(names(read), ElementsAre("a", "other"));
  EXPECT_DOUBLE_EQ(read.at("other").busy_seconds, 2);
  read = labels.read({tenant("a", 1, 1s), tenant("b", 1, 15s), tenant("c", 1, 100s)});
  EXPECT_DOUBLE_EQ(read.at("other").busy_seconds, 5);
  labels.set_limit(3);
  read = labels.read({tenant("a", 1, 1s), tenant("b", 1, 15s), tenant("c", 1, 100s)});
  ASSERT_THAT(names(read), ElementsAre("a", "b", "c", "other"));
  EXPECT_DOUBLE_EQ(read.at("b").busy_seconds, 10) << "as long as it had the label";
}

TEST(TenantLabelsTest, BusyTimeOfTheOthersNeverFalls) {
  TenantLabels labels(1);
  labels.read({tenant("m", 1)});
  const auto other = [&](std::vector<TenantView> tenants) {
    return labels.read(tenants).at("other").busy_seconds;
  };
  EXPECT_DOUBLE_EQ(other({tenant("a", 1, 5s), tenant("b", 1, 7s), tenant("m", 1)}), 12);
  EXPECT_DOUBLE_EQ(other({tenant("b", 1, 8s), tenant("m", 1)}), 13) << "a has gone";
  EXPECT_DOUBLE_EQ(other({tenant("a", 1, 2s), tenant("b", 1, 8s), tenant("m", 1)}), 15)
      << "a is back, counted from 0";
  EXPECT_DOUBLE_EQ(other({}), 15) << "and stays when no tenant is left";
}

TEST(TenantLabelsTest, ATenantCalledOtherIsOneOfTheOthers) {
  TenantLabels labels(2);
  const auto read = labels.read({tenant("a", 1), tenant("b", 1), tenant("c", 1), tenant("other", 10)});
  ASSERT_THAT(names(read), ElementsAre("a", "b", "other"));
  EXPECT_EQ(read.at("other").queued, 11u);
}

TEST(TenantLabelsTest, ALimitOfNoneFoldsAll) {
  TenantLabels labels(0);
  EXPECT_THAT(names(labels.read({tenant("a", 1), tenant("b", 1)})), ElementsAre("other"));
}

}  // namespace
}  // namespace locksley::daemon
