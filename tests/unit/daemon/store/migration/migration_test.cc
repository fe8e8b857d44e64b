// From one store to another, interrupted wherever it can be.
#include "daemon/store/migration/migration.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "daemon/store/rows/rows.h"
#include "tests/support/memory_engine.h"
#include "tests/support/migration_place.h"

namespace locksley::daemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Phase = Migration::Phase;
using Place = testing::MigrationPlace;
using testing::fill;
using testing::run;
using testing::said;

// At which question a run ends, counted from 1.
std::size_t questions() {
  Place source;
  Place target;
  fill(source);
  return run(source, target).asked.size();
}

TEST(MigrationTest, CopiesEveryRowAndSaysWhatTheyComeTo) {
  Place source;
  Place target;
  fill(source);
  const testing::TableRows before = source.rows();
  const testing::MigrationRun done = run(source, target);
  ASSERT_EQ(said(done), "done");
  EXPECT_TRUE(source.rows() == before);
  EXPECT_TRUE(target.rows() == before);
  for (std::size_t table = 0; table < kTables; ++table) {
    std::uint64_t bytes = 0;
    for (const auto& [key, value] : before[table]) bytes += key.size() + value.size();
    EXPECT_EQ(done.sums[table].rows, before[table].size());
    EXPECT_EQ(done.sums[table].bytes, bytes);
    EXPECT_EQ(done.sums[table].digest.size(), 32U);
  }
  EXPECT_GT(std::ranges::count(done.asked, Phase::kCopying), 10) << "the other tests would interrupt nothing";
}

TEST(MigrationTest, GoesOnAfterAStopAtAnyQuestion) {
  for (std::size_t stop_at = questions(); stop_at > 0; --stop_at) {
    Place source;
    Place target;
    fill(source);
    std::size_t left = stop_at;
    ASSERT_EQ(said(run(source, target, [&](Phase) { return --left != 0; })), "stopped");
    EXPECT_THAT(target.start(),
                AllOf(HasSubstr("unfinished copy of " + source.name()), HasSubstr("--migrate-to")));
    ASSERT_EQ(said(run(source, target)), "done") << "stopped at " << stop_at;
    ASSERT_TRUE(target.rows() == source.rows()) << "stopped at " << stop_at;
  }
}

// What is not synced is lost, in the one store or in the other.
TEST(MigrationTest, GoesOnAfterALossOfPowerAtAnyQuestion) {
  const std::size_t most = questions();
  for (std::size_t cut_at = 1; cut_at <= most; ++cut_at) {
    Place source;
    Place target;
    fill(source);
    Place& cut = cut_at % 3 == 0 ? source : target;
    std::size_t left = cut_at;
    const testing::MigrationRun failed = run(source, target, [&](Phase) {
      if (--left == 0) cut.disk->cut_power();
      return true;
    });
    EXPECT_THAT(said(failed), StartsWith("failed: cannot write to the store " + cut.name()));
    cut.disk->lose_power();
    EXPECT_THAT(target.start(), HasSubstr("unfinished copy"));
    ASSERT_EQ(said(run(source, target)), "done") << "cut at " << cut_at;
    ASSERT_TRUE(target.rows() == source.rows()) << "cut at " << cut_at;
    EXPECT_EQ(target.form(), "locksley 2");
  }
}

TEST(MigrationTest, WhatWasCopiedIsNotCopiedAgain) {
  Place source;
  Place target;
  fill(source);
  const auto copying = [](const testing::MigrationRun& run) {
    return std::ranges::count(run.asked, Phase::kCopying);
  };
  std::size_t asked = 0;
  const testing::MigrationRun stopped =
      run(source, target, [&](Phase phase) { return phase == Phase::kCopying || ++asked == 0; });
  ASSERT_EQ(said(stopped), "stopped");
  EXPECT_GT(copying(stopped), 10);
  const testing::MigrationRun rest = run(source, target);
  ASSERT_EQ(said(rest), "done");
  EXPECT_LT(copying(rest), copying(stopped) / 2);
}

TEST(MigrationTest, ACrashBetweenTheTwoMarksLeavesNoStoreToStartOn) {
  Place source;
  Place target;
  fill(source);
  ASSERT_THAT(said(run(source, target,
                       [&](Phase phase) {
                         if (phase == Phase::kComparing) target.disk->cut_power();
                         return true;
                       })),
              StartsWith("failed"));
  target.disk->lose_power();
  EXPECT_THAT(source.start(),
              HasSubstr("if that is refused as an unfinished copy, run `locksleyd --migrate-to`"));
  EXPECT_THAT(target.start(), HasSubstr("unfinished copy"));
  EXPECT_EQ(said(run(source, target)), "done");
  EXPECT_EQ(target.form(), "locksley 2");
}

// A daemon has served from the source meanwhile.
TEST(MigrationTest, ASourceThatHasChangedBetweenTwoRunsIsCopiedAsItIsThen) {
  for (const Phase stop_in : {Phase::kCopying, Phase::kComparing}) {
    Place source;
    Place target;
    fill(source);
    std::size_t asked = 0;
    ASSERT_EQ(said(run(source, target, [&](Phase phase) { return phase != stop_in || ++asked < 12; })),
              "stopped");
    EXPECT_EQ(source.form(), "locksley 2")
        << "a daemon may start on the source until the migration has finished";
    source.edit([](Engine::Group& group) {
      group.put(Table::kPayloads, part_key(1, 0), "another");
      group.erase(Table::kPayloads, part_key(2, 0));
      group.put(Table::kPayloads, part_key(3, 17), "one more");
      group.put(Table::kIndex, row_key(kAcceptedKey, 5'000'001), "new");
      group.erase(Table::kIndex, customer_key("user", "zoo"));
      group.erase_range(Table::kResults, part_key(20, 0), part_key(21, 0),
                        Engine::Group::Rows::kAllCommitted);
    });
    ASSERT_EQ(said(run(source, target)), "done");
    EXPECT_TRUE(target.rows() == source.rows());
  }
}

TEST(MigrationTest, ASourceThatChangesMeanwhileIsNoticed) {
  Place source;
  Place target;
  fill(source);
  std::uint64_t changes = 0;
  auto& disk = dynamic_cast<testing::MemoryDisk&>(*source.disk);
  const testing::MigrationRun changed = run(source, target, [&](Phase phase) {
    // A row that has been copied.
    if (phase == Phase::kCopying) {
      EXPECT_TRUE(disk.apply({{.kind = testing::MemoryDisk::Change::Kind::kPut,
                               .table = Table::kPayloads,
                               .key = std::string(part_key(1, 0)),
                               .value = std::to_string(++changes)}})
                      .has_value());
    }
    return true;
  });
  EXPECT_THAT(said(changed), StartsWith("different: the store " + target.name() + " differs"));
  EXPECT_EQ(source.start(), "");
  EXPECT_THAT(target.start(), HasSubstr("unfinished copy"));
}

}  // namespace
}  // namespace locksley::daemon
