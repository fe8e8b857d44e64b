// The label `tenant` is bounded, and its counters never fall.
#include "daemon/metrics/tenant_labels.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

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

struct Reading {
  TenantNumbers sums;
  double busy_seconds = 0;
};
using Readings = std::map<std::string, Reading>;  // by label

// Each lane's tenants, in pages of two.
Readings read_lanes(TenantLabels& labels, const std::vector<std::vector<TenantView>>& lanes) {
  constexpr std::size_t kAtOnce = 2;
  TenantLabels::Sums sums;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    std::optional<std::string> after;
    for (std::size_t from = 0; from <= lanes[lane].size(); from += kAtOnce) {
      const auto begin = lanes[lane].begin() + static_cast<std::ptrdiff_t>(from);
      const std::size_t count = std::min(kAtOnce, lanes[lane].size() - from);
      const std::vector<TenantView> page(begin, begin + static_cast<std::ptrdiff_t>(count));
      labels.add(std::to_string(lane), after ? &*after : nullptr, page, count < kAtOnce, sums);
      if (!page.empty()) after = page.back().tenant;
    }
  }
  Readings readings;
  std::string last;
  while (const std::string* const label = labels.label_after(last)) {
    last = *label;
    readings[last] = {sums[last], labels.busy_seconds(last)};
  }
  return readings;
}

Readings read_lane(TenantLabels& labels, const std::vector<TenantView>& tenants) {
  return read_lanes(labels, {tenants});
}

std::vector<std::string> names(const Readings& numbers) {
  std::vector<std::string> result;
  for (const auto& [name, unused] : numbers) result.push_back(name);
  return result;
}

TEST(TenantLabelsTest, AddsUpWhatSeveralLanesSay) {
  TenantLabels labels(50);
  const auto read = read_lanes(labels, {{tenant("a", 1, 2s, 0.5, 0.25)}, {tenant("a", 10, 3s, 0.25, 0.25)}});
  ASSERT_THAT(names(read), ElementsAre("a"));
  EXPECT_EQ(read.at("a").sums.queued, 11u);
  EXPECT_DOUBLE_EQ(read.at("a").busy_seconds, 5);
  EXPECT_DOUBLE_EQ(read.at("a").sums.share, 0.75);
  EXPECT_DOUBLE_EQ(read.at("a").sums.received, 0.5);
}

TEST(TenantLabelsTest, TheFirstKeepTheirLabelsAndTheOthersAreOne) {
  TenantLabels labels(2);
  read_lane(labels, {tenant("m", 1), tenant("n", 1)});
  const auto read =
      read_lane(labels, {tenant("a", 5, 1s), tenant("b", 6, 2s), tenant("m", 1), tenant("n", 1)});
  ASSERT_THAT(names(read), ElementsAre("m", "n", "other"));
  EXPECT_EQ(read.at("other").sums.queued, 11u);
  EXPECT_DOUBLE_EQ(read.at("other").busy_seconds, 3);
}

TEST(TenantLabelsTest, ATenantThatHasGoneKeepsItsLabelAndItsCounter) {
  TenantLabels labels(1);
  EXPECT_THAT(names(read_lane(labels, {tenant("m", 1, 3s)})), ElementsAre("m"));
  auto read = read_lane(labels, {});
  ASSERT_THAT(names(read), ElementsAre("m"));
  EXPECT_DOUBLE_EQ(read.at("m").busy_seconds, 3);
  EXPECT_EQ(read.at("m").sums.queued, 0u);
  read = read_lane(labels, {tenant("a", 1), tenant("m", 1, 2s)});
  ASSERT_THAT(names(read), ElementsAre("m", "other"));
  EXPECT_DOUBLE_EQ(read.at("m").busy_seconds, 5) << "a ring counts it from 0 again";
}

// Busy time that was reported under a tenant's own label is not counted again.
TEST(TenantLabelsTest, ALowerLimitTakesLabelsAwayAndAHigherOneGivesThem) {
  TenantLabels labels(3);
  read_lane(labels, {tenant("a", 1, 1s), tenant("b", 1, 10s), tenant("c", 1, 100s)});
  labels.set_limit(1);
  auto read = read_lane(labels, {tenant("a", 1, 1s), tenant("b", 1, 12s), tenant("c", 1, 100s)});
  ASSERT_THAT(names(read), ElementsAre("a", "other"));
  EXPECT_DOUBLE_EQ(read.at("other").busy_seconds, 2);
  read = read_lane(labels, {tenant("a", 1, 1s), tenant("b", 1, 15s), tenant("c", 1, 100s)});
  EXPECT_DOUBLE_EQ(read.at("other").busy_seconds, 5);
  labels.set_limit(3);
  read = read_lane(labels, {tenant("a", 1, 1s), tenant("b", 1, 15s), tenant("c", 1, 100s)});
  ASSERT_THAT(names(read), ElementsAre("a", "b", "c", "other"));
  EXPECT_DOUBLE_EQ(read.at("b").busy_seconds, 10) << "as long as it had the label";
}

TEST(TenantLabelsTest, BusyTimeOfTheOthersNeverFalls) {
  TenantLabels labels(1);
  read_lane(labels, {tenant("m", 1)});
  const auto other = [&](std::vector<TenantView> tenants) {
    return read_lane(labels, tenants).at("other").busy_seconds;
  };
  EXPECT_DOUBLE_EQ(other({tenant("a", 1, 5s), tenant("b", 1, 7s), tenant("m", 1)}), 12);
  EXPECT_DOUBLE_EQ(other({tenant("b", 1, 8s), tenant("m", 1)}), 13) << "a has gone";
  EXPECT_DOUBLE_EQ(other({tenant("a", 1, 2s), tenant("b", 1, 8s), tenant("m", 1)}), 15)
      << "a is back, counted from 0";
  EXPECT_DOUBLE_EQ(other({}), 15) << "and stays when no tenant is left";
}

// Two scrapes may read in turns: each difference counts once, in the order of the readings.
TEST(TenantLabelsTest, ReadingsInTurnsCountBusyTimeOnce) {
  TenantLabels labels(1);
  TenantLabels::Sums first, second;
  const std::string a = "a";
  labels.add("cpu", nullptr, {tenant("a", 1, 1s)}, false, first);
  labels.add("cpu", nullptr, {tenant("a", 1, 2s)}, false, second);
  labels.add("cpu", &a, {tenant("b", 1, 10s)}, true, second);
  labels.add("cpu", &a, {tenant("b", 1, 12s)}, true, first);
  EXPECT_DOUBLE_EQ(labels.busy_seconds("a"), 2);
  EXPECT_DOUBLE_EQ(labels.busy_seconds("other"), 12);
}

// The ring of one lane may forget a tenant that the ring of another knows.
TEST(TenantLabelsTest, EachLaneCountsItsTenantsForItself) {
  TenantLabels labels(1);
  read_lanes(labels, {{tenant("a", 1, 5s)}, {tenant("a", 1, 7s)}});
  read_lanes(labels, {{}, {tenant("a", 1, 8s)}});
  read_lanes(labels, {{tenant("a", 1, 6s)}, {tenant("a", 1, 8s)}});
  EXPECT_DOUBLE_EQ(labels.busy_seconds("a"), 19);
}

TEST(TenantLabelsTest, ATenantCalledOtherIsOneOfTheOthers) {
  TenantLabels labels(2);
  const auto read = read_lane(labels, {tenant("a", 1), tenant("b", 1), tenant("c", 1), tenant("other", 10)});
  ASSERT_THAT(names(read), ElementsAre("a", "b", "other"));
  EXPECT_EQ(read.at("other").sums.queued, 11u);
}

TEST(TenantLabelsTest, ALimitOfNoneFoldsAll) {
  TenantLabels labels(0);
  EXPECT_THAT(names(read_lane(labels, {tenant("a", 1), tenant("b", 1)})), ElementsAre("other"));
}

}  // namespace
}  // namespace locksley::daemon
