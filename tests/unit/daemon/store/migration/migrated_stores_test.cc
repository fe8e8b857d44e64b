// Which stores a migration takes, and on which of them a daemon then starts.
#include <gmock/gmock.h>

#include <string>

#include "daemon/store/migration/migration.h"
#include "daemon/store/migration_mark.h"
#include "daemon/store/rows/rows.h"
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

TEST(MigratedStoresTest, OnlyTheCopyCanBeStartedAfterwards) {
  Place source;
  Place target;
  EXPECT_EQ(source.start(), "");
  ASSERT_EQ(said(run(source, target)), "done");
  EXPECT_EQ(target.start(), "");
  EXPECT_THAT(source.start(), AllOf(HasSubstr("was migrated to " + target.name()),
                                    HasSubstr("--undo-migration"), HasSubstr("To go back")));
  // A program of an earlier version compares the format with those that it knows.
  EXPECT_EQ(source.form(), kMigratedForm);
  EXPECT_EQ(said(run(source, target)), "done before");
}

TEST(MigratedStoresTest, ATargetThatIsNoCopyOfThisSourceIsRefusedAndStaysAsItIs) {
  Place source;
  fill(source);
  const auto expect_refused = [&](Place& target) {
    const std::string form = target.form();
    const testing::TableRows rows = target.rows();
    EXPECT_THAT(said(run(source, target)), AllOf(StartsWith("refused: the store " + target.name()),
                                                 HasSubstr("use an empty database or a new folder")));
    EXPECT_EQ(target.form(), form);
    EXPECT_TRUE(target.rows() == rows);
    EXPECT_EQ(source.start(), "");
  };
  Place in_use;
  EXPECT_EQ(in_use.start(), "");
  expect_refused(in_use);

  Place with_a_result;
  with_a_result.edit([](Engine::Group& group) { group.put(Table::kResults, part_key(1, 0), "x"); });
  expect_refused(with_a_result);

  Place with_settings;
  with_settings.edit([](Engine::Group& group) { group.put(Table::kIndex, customer_key("u", "c"), "x"); });
  expect_refused(with_settings);

  Place other;
  Place copy_of_other;
  fill(other);
  ASSERT_EQ(said(run(other, copy_of_other, [](Phase) { return false; })), "stopped");
  expect_refused(copy_of_other);
  ASSERT_EQ(said(run(other, copy_of_other)), "done");
  expect_refused(copy_of_other);
}

TEST(MigratedStoresTest, AMigrationThatWasBegunMayBeGivenUpForAnotherTarget) {
  Place source;
  Place first;
  Place second;
  fill(source);
  ASSERT_EQ(said(run(source, first, [](Phase) { return false; })), "stopped");
  EXPECT_EQ(said(run(source, second)), "done");
  EXPECT_THAT(said(run(source, first)), HasSubstr("was migrated to " + second.name()));
}

TEST(MigratedStoresTest, ASourceThatIsNoStoreToStartOnIsRefused) {
  Place target;
  Place nothing;
  EXPECT_THAT(said(run(nothing, target)), StartsWith("refused: there is nothing to migrate"));

  Place later;
  later.edit([](Engine::Group& group) { group.put(Table::kIndex, Key(kFormKey), "locksley 9"); });
  EXPECT_THAT(said(run(later, target)), AllOf(StartsWith("refused"), HasSubstr("another version")));

  Place source;
  Place copy;
  fill(source);
  ASSERT_EQ(said(run(source, copy, [](Phase) { return false; })), "stopped");
  EXPECT_THAT(said(run(copy, target)),
              AllOf(StartsWith("refused"), HasSubstr("unfinished copy of " + source.name())));
  EXPECT_EQ(target.start(), "") << "nothing was written to it";
}

TEST(MigratedStoresTest, OneGoesBackToANewFolder) {
  Place first;
  Place database;
  Place back;
  fill(first);
  ASSERT_EQ(said(run(first, database)), "done");
  database.edit(
      [](Engine::Group& group) { group.put(Table::kIndex, row_key(kAcceptedKey, 6'000'000), "new"); });
  const testing::TableRows rows = database.rows();
  EXPECT_THAT(said(run(database, first)), StartsWith("refused: the store " + first.name() + " is not empty"));
  ASSERT_EQ(said(run(database, back)), "done");
  EXPECT_TRUE(back.rows() == rows);
  EXPECT_EQ(back.start(), "");
  EXPECT_THAT(database.start(), HasSubstr("was migrated to " + back.name()));
  EXPECT_THAT(first.start(), HasSubstr("was migrated to " + database.name()));
}

TEST(MigratedStoresTest, AMigrationCanBeUndone) {
  Place source;
  Place target;
  Place other;
  EXPECT_EQ(source.start(), "");
  const auto undo = [&]() -> std::string {
    const auto engine = source.open();
    const ThreadRoleScope role(kStoreWriter);
    const auto undone = undo_migration(*engine);
    return undone ? "" : undone.error();
  };
  EXPECT_THAT(undo(), HasSubstr("was not migrated"));
  ASSERT_EQ(said(run(source, target)), "done");
  EXPECT_EQ(undo(), "");
  EXPECT_EQ(source.start(), "");
  EXPECT_THAT(undo(), HasSubstr("was not migrated"));
  EXPECT_THAT(said(run(source, target)), StartsWith("refused")) << "a daemon may have served from it";
  EXPECT_EQ(said(run(source, other)), "done");
}

TEST(MigratedStoresTest, ACopyOfTheSourceFromBeforeTheEndIsRefused) {
  Place source;
  Place target;
  fill(source);
  ASSERT_EQ(said(run(source, target, [](Phase) { return false; })), "stopped");
  const std::string mark = source.mark();
  ASSERT_EQ(said(run(source, target)), "done");
  source.edit([&](Engine::Group& group) {
    group.put(Table::kIndex, Key(kFormKey), "locksley 2");
    group.put(Table::kIndex, Key(kMigrationKey), mark);
  });
  EXPECT_THAT(said(run(source, target)), AllOf(StartsWith("refused"), HasSubstr("has finished before")));
}

TEST(MigratedStoresTest, RowsOfAnEarlierFormatKeepIt) {
  Place source;
  Place target;
  source.edit([](Engine::Group& group) { group.put(Table::kIndex, Key(kFormKey), "locksley 1"); });
  ASSERT_EQ(said(run(source, target)), "done");
  EXPECT_EQ(target.form(), "locksley 1");
  EXPECT_EQ(target.start(), "");
  EXPECT_EQ(target.form(), "locksley 2");
}

TEST(MigratedStoresTest, BytesThatAreNoMarkAreNotTakenForOne) {
  const MigrationMark mark{.id = "id",
                           .other = "/elsewhere",
                           .form = "locksley 2",
                           .at = 5,
                           .copied = {.table = Table::kResults, .key = std::string("a\0b", 3)}};
  const std::string bytes = encode(mark);
  const auto read = decode_mark(bytes);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(encode(*read), bytes);
  EXPECT_EQ(read->copied.key, mark.copied.key);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_mark(bytes.substr(0, size))) << size;
}

}  // namespace
}  // namespace locksley::daemon
