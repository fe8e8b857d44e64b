// The lists of changed batches that the active daemon writes for those that stand by.
#include "daemon/store/postgres/change_lists.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "daemon/store/engine/key.h"
#include "daemon/store/postgres/postgres_engine.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::wait_until_true;

constexpr std::uint64_t kHalf = std::uint64_t{8} << 20;

class ChangeListsTest : public ::testing::Test {
 protected:
  ChangeListsTest() {
    open().reset();  // the tables are there
    node = std::stoi(
        value("insert into locksley_node (alive, beat, committed) values (true, 0, 0) returning node"));
  }

  std::unique_ptr<Engine> open() { return open(disk.options()); }
  static std::unique_ptr<Engine> open(const PostgresOptions& options) {
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  std::string value(const std::string& sql) { return testing::TestConnection(disk.url()).value(sql); }
  void run(const std::string& sql) { testing::TestConnection(disk.url()).run(sql); }
  Freed change_halves(ChangeLists& lists) {
    const auto connection = std::move(*PgConnection::open(disk.url(), "lists"));
    const auto freed = lists.run(*connection);
    if (!freed) throw std::runtime_error(freed.error().error.what);
    return *freed;
  }

  testing::PostgresDisk disk;
  std::int32_t node = 0;
  PostgresGroup group;
};

TEST_F(ChangeListsTest, AListNamesEachBatchOfWhichARowOfTheIndexHasChanged) {
  ChangeLists lists(node, std::chrono::seconds(5), 0);
  EXPECT_THAT(lists.list(group)->batches, IsEmpty());
  group.put(Table::kIndex, Key('b').append(7), "");
  group.put(Table::kIndex, Key('e').append(7), "");
  group.erase(Table::kIndex, Key('b').append(3));
  group.erase_range(Table::kIndex, Key('s').append(5), Key('s').append(6),
                    Engine::Group::Rows::kAllCommitted);
  group.put(Table::kPayloads, Key().append(9).append(0), "");
  group.put(Table::kIndex, "uanna/one", "a customer's");
  EXPECT_THAT(lists.list(group)->batches, ElementsAre(3, 5, 7));
  group.erase_range(Table::kIndex, Key('s').append(1), Key('s').append(9),
                    Engine::Group::Rows::kAllCommitted);
  EXPECT_THAT(lists.list(group)->batches, ElementsAre(ChangeList::kOthers, 3, 5, 7));
}

TEST_F(ChangeListsTest, TheHalvesTakeTurnsAndEachIsEmptiedBefore) {
  ChangeLists lists(node, std::chrono::seconds(5), kHalf - 1);
  run("insert into locksley_change values (0, 1, 0, '{}'), (0, 2, 1, '{}')");
  EXPECT_EQ(change_halves(lists), Freed::kHasRows) << "it is not full";
  EXPECT_EQ(lists.list(group)->half, 0);
  EXPECT_EQ(change_halves(lists), Freed::kDone);
  EXPECT_EQ(lists.list(group)->half, 1);
  EXPECT_EQ(value("select string_agg(number || '', ' ') from locksley_change"), "1");
  EXPECT_EQ(change_halves(lists), Freed::kHasRows);
}

TEST_F(ChangeListsTest, WhileAHalfIsInUseTheListsGoOnUpToABound) {
  ChangeLists lists(node, std::chrono::seconds(5), kHalf);
  testing::TestConnection other(disk.url());
  other.run("begin; lock table locksley_change_1 in access share mode");
  EXPECT_EQ(change_halves(lists), Freed::kLocked);
  EXPECT_EQ(lists.list(group)->half, 0);
  ChangeLists too_many(node, std::chrono::seconds(5), 8 * kHalf);
  EXPECT_FALSE(too_many.list(group));
  other.run("commit");
  EXPECT_EQ(change_halves(too_many), Freed::kDone);
  EXPECT_TRUE(too_many.list(group));
}

TEST_F(ChangeListsTest, AFencedDaemonEmptiesNothing) {
  ChangeLists lists(node, std::chrono::seconds(5), kHalf);
  run("insert into locksley_change values (0, 2, 1, '{}'); update locksley_node set alive = false");
  EXPECT_EQ(change_halves(lists), Freed::kFenced);
  EXPECT_EQ(value("select count(*) from locksley_change"), "1");
}

TEST_F(ChangeListsTest, NoneIsWrittenWhileNoDaemonStandsBy) {
  run("update locksley_node set alive = false");
  const auto engine = open();
  const ThreadRoleScope role(kStoreWriter);
  const auto writes_one = [&] {
    kStoreWriter.assert_held();
    run("delete from locksley_change");
    const auto made = engine->new_group();
    made->put(Table::kIndex, Key('b').append(1), "");
    if (!engine->commit(*made, Engine::Sync::kSynced)) throw std::runtime_error("not committed");
    return value("select count(*) from locksley_change") == "1";
  };
  EXPECT_TRUE(wait_until_true([&] { return !writes_one(); })) << "once it has looked";
  run("insert into locksley_node (alive, beat, committed) values (false, 0, -1)");
  EXPECT_TRUE(wait_until_true([&] {
    run("update locksley_node set beat = beat + 1 where committed = -1");
    return writes_one();
  }));
}

TEST_F(ChangeListsTest, ARoleThatMayNotEmptyTheTablesWritesNone) {
  const std::string plain = "plain_" + disk.name();
  run(fmt::format(
      "update locksley_node set alive = false; create role {0} login; grant usage on schema {1} to {0}; "
      "grant select, insert, update, delete on all tables in schema {1} to {0}",
      plain, disk.name()));
  {
    PostgresOptions options = disk.options();
    options.url.replace(options.url.find("locksley@"), std::string_view("locksley@").size(), plain + "@");
    const auto engine = open(options);
    const ThreadRoleScope role(kStoreWriter);
    const auto made = engine->new_group();
    made->put(Table::kIndex, Key('b').append(1), "");
    EXPECT_TRUE(engine->commit(*made, Engine::Sync::kSynced));
  }
  EXPECT_EQ(value("select count(*) from locksley_change"), "0");
  run("drop owned by " + plain + "; drop role " + plain);
}

TEST_F(ChangeListsTest, ARoleThatMayNotCreateTheTablesGoesOnWithoutThem) {
  const std::string plain = "plain_" + disk.name();
  run(fmt::format(
      "update locksley_node set alive = false; drop table locksley_change; create role {0} login; "
      "grant usage on schema {1} to {0}; "
      "grant select, insert, update, delete, truncate on all tables in schema {1} to {0}",
      plain, disk.name()));
  {
    PostgresOptions options = disk.options();
    options.url.replace(options.url.find("locksley@"), std::string_view("locksley@").size(), plain + "@");
    const auto engine = open(options);
    const ThreadRoleScope role(kStoreWriter);
    const auto made = engine->new_group();
    made->put(Table::kIndex, Key('b').append(1), "");
    EXPECT_TRUE(engine->commit(*made, Engine::Sync::kSynced));
  }
  run("drop owned by " + plain + "; drop role " + plain);
}

TEST_F(ChangeListsTest, AStoreOfAnEarlierVersionGetsTheTables) {
  run("update locksley_node set alive = false; drop table locksley_change");
  open().reset();
  EXPECT_EQ(value("select count(*) from locksley_change"), "0");
}

}  // namespace
}  // namespace locksley::daemon
