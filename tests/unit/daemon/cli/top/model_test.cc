// top's figures: what two looks at the daemon tell together; and INFO's text, which one look
// brings.

#include <gmock/gmock.h>

#include "daemon/cli/top/snapshot.h"
#include "tests/unit/daemon/cli/top/support.h"

namespace locksley::cli {
namespace {

using std::chrono::milliseconds;
using testing::batch_status;
using ::testing::ElementsAre;
using testing::model_of;
using testing::snapshot_at;

std::vector<std::string> ids(const TopFigures& figures, TopOrder order, std::string_view filter = "") {
  std::vector<std::string> result;
  for (const TopBatch* batch : chosen_batches(figures, order, filter)) result.push_back(batch->status.id);
  return result;
}

TEST(TopSnapshotTest, InfoIsReadByNameAndWhatIsMissingIsAbsent) {
  const TopServer server = to_top_server(
      "# Server\r\nlocksley_version:1.2.3\r\nprocess_id:7\r\nuptime_in_seconds:61\r\n\r\n"
      "# Locksley\r\nqueued_jobs:5\r\nmax_queued_jobs:10\r\ndraining:1\r\nuser:anna\r\ngroups:submit,read\r\n"
      "store:ready\r\nended_jobs:nonsense\r\nsomething_new:1\r\n");
  EXPECT_EQ(server.version, "1.2.3");
  EXPECT_EQ(server.uptime_s, 61U);
  EXPECT_EQ(server.queued_jobs, 5U);
  EXPECT_TRUE(server.is_draining);
  EXPECT_FALSE(server.ended_jobs);
  EXPECT_FALSE(server.store_bytes);
  EXPECT_TRUE(server.may("read"));
  EXPECT_FALSE(server.may("control"));
  EXPECT_FALSE(server.may("rea"));
}

TEST(TopSnapshotTest, AnOlderDaemonThatNamesNoPermissionsIsTried) {
  EXPECT_TRUE(to_top_server("process_id:7\r\n").may("control"));
}

TEST(TopSnapshotTest, LanesKeepTheirNamesWhateverTheyAre) {
  const auto lanes = to_top_lanes(
      "# "
      "Lanes\r\nlane_cpu:slots=2,running=1,queued=30,batches=4\r\nlane_lane_x:slots=8\r\nlanes:3\r\nlane_"
      "y\r\n");
  ASSERT_EQ(lanes.size(), 2U);
  EXPECT_EQ(lanes[0].name, "cpu");
  EXPECT_EQ(std::tuple(lanes[0].slots, lanes[0].running, lanes[0].queued, lanes[0].batches),
            std::tuple(2U, 1U, 30U, 4U));
  EXPECT_EQ(lanes[1].name, "lane_x");
  EXPECT_EQ(std::tuple(lanes[1].slots, lanes[1].queued), std::tuple(8U, 0U));
}

TEST(TopModelTest, RatesComeFromTwoLooks) {
  TopModel model;
  model.take(snapshot_at(0));
  EXPECT_FALSE(model.figures().has_rates);
  EXPECT_FALSE(model.figures().jobs_per_second);
  EXPECT_EQ(model.figures().workers[3].busy, 0);
  model.take(snapshot_at(1));
  const TopFigures& figures = model.figures();
  ASSERT_TRUE(figures.has_rates);
  EXPECT_EQ(figures.jobs_per_second, 812'000);
  EXPECT_NEAR(figures.workers[3].busy, 0.75, 1e-9);
  EXPECT_NEAR(figures.workers[3].steals_per_second, 3, 1e-9);
  EXPECT_NEAR(figures.busy, 0.375, 1e-9);
  EXPECT_NEAR(figures.steals_per_second, 6, 1e-9);
  EXPECT_NEAR(figures.batches[0].jobs_per_second, 50'000, 1e-6);
  EXPECT_EQ(figures.batches[0].left, milliseconds(14'000));
}

TEST(TopModelTest, AJobThatHasNotEndedKeepsItsWorkerBusy) {
  TopSnapshot before = snapshot_at(0);
  TopSnapshot after = snapshot_at(1);
  for (TopSnapshot* shot : {&before, &after}) {
    for (auto& worker : shot->workers) worker.busy_us = 5'000'000;
  }
  before.workers[0].turn_us = 3'000'000;
  after.workers[0].turn_us = 4'000'000;
  // It ended, and counts what it took before the first look only once.
  before.workers[1].turn_us = 60'000'000;
  after.workers[1].busy_us = 65'250'000;
  TopModel model;
  model.take(std::move(before));
  model.take(std::move(after));
  EXPECT_NEAR(model.figures().workers[0].busy, 1.0, 1e-9);
  EXPECT_NEAR(model.figures().workers[1].busy, 0.25, 1e-9);
  EXPECT_NEAR(model.figures().workers[2].busy, 0.0, 1e-9);
}

TEST(TopModelTest, MachinesThatLostMostComeFirstThenTheLargest) {
  TopSnapshot shot = snapshot_at(0);
  shot.machines = testing::machines_of(4);
  shot.machines[1].slots = 128;
  shot.machines[2].busy = 0;
  TopModel model;
  model.take(std::move(shot));
  std::vector<std::string> names;
  for (const client::MachineInfo& machine : model.figures().machines) names.push_back(machine.name);
  EXPECT_THAT(names, ElementsAre("render-3", "render-1", "render-0", "render-2"));
}

TEST(TopModelTest, ADaemonThatStartedAnewIsNotComparedWithTheOneBefore) {
  TopModel model;
  model.take(snapshot_at(0));
  TopSnapshot other = snapshot_at(1);
  other.server.process_id = 43;
  other.server.ended_jobs = 3;
  model.take(std::move(other));
  EXPECT_FALSE(model.figures().has_rates);
  EXPECT_FALSE(model.figures().jobs_per_second);
  EXPECT_EQ(model.figures().batches[0].jobs_per_second, 0);
}

TEST(TopModelTest, NothingIsComparedAcrossALostConnection) {
  TopModel model;
  model.take(snapshot_at(0));
  model.forget_rates();
  model.take(snapshot_at(1));
  EXPECT_FALSE(model.figures().has_rates);
}

TEST(TopModelTest, TimeLeftIsTheDaemonsWordWhereNothingEndsYet) {
  TopSnapshot shot = snapshot_at(0);
  shot.explanations["anna/later"].eta_ms = 90'000;
  TopModel model;
  model.take(std::move(shot));
  const auto chosen = chosen_batches(model.figures(), TopOrder::kNewest, "later");
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen[0]->left, milliseconds(90'000));
  // One that is over has no time left, whatever was said.
  EXPECT_FALSE(chosen_batches(model.figures(), TopOrder::kNewest, "old")[0]->left);
}

TEST(TopModelTest, WhatIsOverComesLastInEveryOrder) {
  const TopModel model = model_of();
  const TopFigures& figures = model.figures();
  EXPECT_THAT(ids(figures, TopOrder::kNewest),
              ElementsAre("nightly", "thumbs", "later", "stream", "old", "gone"));
  EXPECT_THAT(ids(figures, TopOrder::kProgress),
              ElementsAre("stream", "nightly", "thumbs", "later", "old", "gone"));
  EXPECT_THAT(ids(figures, TopOrder::kRate),
              ElementsAre("nightly", "thumbs", "later", "stream", "old", "gone"));
  EXPECT_THAT(ids(figures, TopOrder::kLeft)[0], "nightly");
  EXPECT_THAT(ids(figures, TopOrder::kJobs),
              ElementsAre("nightly", "thumbs", "later", "stream", "old", "gone"));
  EXPECT_THAT(ids(figures, TopOrder::kFailed),
              ElementsAre("thumbs", "nightly", "later", "stream", "old", "gone"));
  EXPECT_THAT(ids(figures, TopOrder::kName),
              ElementsAre("later", "nightly", "stream", "thumbs", "gone", "old"));
  EXPECT_THAT(ids(figures, TopOrder::kTenant)[3], "thumbs");
}

TEST(TopModelTest, AFilterLooksAtAllThatIsShownInAnyCase) {
  const TopModel model = model_of();
  const TopFigures& figures = model.figures();
  EXPECT_THAT(ids(figures, TopOrder::kNewest, "CHECKSUMS"), ElementsAre("nightly"));
  EXPECT_THAT(ids(figures, TopOrder::kNewest, "resize"), ElementsAre("thumbs"));
  EXPECT_THAT(ids(figures, TopOrder::kNewest, "after-b"), ElementsAre("later"));
  EXPECT_THAT(ids(figures, TopOrder::kNewest, "bert"), ElementsAre("thumbs"));
  EXPECT_THAT(ids(figures, TopOrder::kNewest, "nothing has this"), ElementsAre());
}

TEST(TopModelTest, AnAdminNamesABatchByItsTenantToo) {
  EXPECT_EQ(model_of().figures().batches[1].name, (TopBatchName{"bert/thumbs", "bert/thumbs"}));
  TopSnapshot shot = snapshot_at(0);
  shot.server.groups = "read,control";
  TopModel model;
  model.take(std::move(shot));
  EXPECT_EQ(model.figures().batches[0].name, (TopBatchName{"anna/nightly", "nightly"}));
}

TEST(TopModelTest, NumbersThatMakeNoSenseMakeNoNonsense) {
  TopSnapshot shot = snapshot_at(0, 2);
  shot.batches = {batch_status("a", "running", 0, 0, 1), batch_status("b", "done", 0, 0, 1),
                  batch_status("c", "running", 3, 5, 1)};
  TopModel model;
  model.take(shot);
  shot.at += std::chrono::seconds(1);
  shot.workers.resize(1);
  shot.workers[0].busy_us = 0;
  shot.batches = {batch_status("c", "running", 3, 2, 1)};
  model.take(shot);
  EXPECT_EQ(model.figures().workers[0].busy, 0);
  EXPECT_EQ(model.figures().batches[0].jobs_per_second, 0);
  shot.at += std::chrono::seconds(1);
  shot.workers.clear();
  shot.batches = {batch_status("a", "running", 0, 0, 1), batch_status("b", "done", 0, 0, 1)};
  model.take(shot);
  EXPECT_EQ(model.figures().busy, 0);
  EXPECT_EQ(model.figures().batches[0].progress, 0);
  EXPECT_EQ(model.figures().batches[1].progress, 1);
}

}  // namespace
}  // namespace locksley::cli
