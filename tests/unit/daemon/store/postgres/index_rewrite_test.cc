// The index on a PostgreSQL server is written anew beside a session that is idle in a transaction.
#include "daemon/store/postgres/index_rewrite.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/engine/key.h"
#include "daemon/store/postgres/connection.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kLeast = 100'000;  // bytes: more may be wasted

class IndexRewriteTest : public ::testing::Test {
 protected:
  IndexRewriteTest() {
    open().reset();  // the tables are there
    node_ = std::stoi(
        value("insert into locksley_node (alive, beat, committed) values (true, 0, 0) returning node"));
    // Twenty rows live; twenty times as many are deleted beside a session that is idle in a
    // transaction.
    idle.run("begin isolation level repeatable read; select count(*) from locksley_cluster");
    run("insert into locksley_index select batch & 63, batch, 'a', -1, convert_to(repeat('x', 5000), 'utf8') "
        "from generate_series(1, 400) batch; delete from locksley_index where batch > 20");
  }

  std::unique_ptr<Engine> open() {
    PostgresOptions options = disk.options();
    options.generation_bytes = kLeast;
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  std::string value(const std::string& sql) { return testing::TestConnection(disk.url()).value(sql); }
  void run(const std::string& sql) { testing::TestConnection(disk.url()).run(sql); }
  std::uint64_t index_bytes() {
    return std::stoull(value("select pg_total_relation_size('locksley_index')"));
  }
  std::string rows() {
    return value(
        "select count(*) || ' ' || sum(batch) || ' ' || sum(octet_length(value)) from locksley_index");
  }
  PgConnection& connection() {
    if (connection_ == nullptr) connection_ = std::move(*PgConnection::open(disk.url(), "rewrite"));
    return *connection_;
  }
  Freed rewrite(std::int32_t node) {
    const auto freed = rewrite_index(connection(), node, now() + std::chrono::seconds(30));
    if (!freed) throw std::runtime_error(freed.error().error.what);
    return *freed;
  }

  testing::PostgresDisk disk;
  testing::TestConnection idle{disk.url()};
  std::int32_t node_ = 0;
  std::unique_ptr<PgConnection> connection_;
};

TEST_F(IndexRewriteTest, RoomComesBackAndEveryRowStays) {
  const std::string before = rows();
  SharedGenerations generations;
  TableSizes sizes(kLeast);
  IndexRewrite rewrite(generations, sizes, node_, std::chrono::seconds(30));
  const auto freed = [&] {
    const auto ran = rewrite.run(connection());
    if (!ran) throw std::runtime_error(ran.error().error.what);
    return *ran;
  };
  EXPECT_EQ(freed(), Freed::kHasRows) << "nothing was measured yet";
  const std::uint64_t large = index_bytes();
  sizes.set_live(large * 16);
  sizes.set_index(large);
  EXPECT_EQ(freed(), Freed::kHasRows) << "it is small beside all that lives";
  sizes.set_live(0);
  EXPECT_EQ(freed(), Freed::kDone);
  EXPECT_LT(index_bytes(), large / 4);
  EXPECT_EQ(rows(), before);
  EXPECT_EQ(idle.value("select count(*) from locksley_index"), "20") << "though its snapshot is earlier";
  EXPECT_EQ(value("select min(pg_column_size(value)) from locksley_index"), "5004")
      << "nothing is compressed";
  EXPECT_EQ(freed(), Freed::kHasRows) << "once, until the table was measured again";
}

TEST_F(IndexRewriteTest, AnIndexWithManyLiveRowsIsLeftToVacuum) {
  run("insert into locksley_index select batch & 63, batch, 'b', -1, convert_to(repeat('x', 9000), 'utf8') "
      "from "
      "generate_series(1, 1000) batch");
  SharedGenerations generations;
  TableSizes sizes(kLeast);
  IndexRewrite rewrite(generations, sizes, node_, std::chrono::seconds(30));
  sizes.set_index(std::uint64_t{1} << 40);
  const std::uint64_t before = index_bytes();
  const auto ran = rewrite.run(connection());
  ASSERT_TRUE(ran.has_value());
  EXPECT_EQ(*ran, Freed::kHasRows);
  EXPECT_EQ(index_bytes(), before);
}

TEST_F(IndexRewriteTest, ADaemonDoesItByItself) {
  const ThreadRoleScope role(kStoreWriter);
  run("update locksley_node set alive = false");
  const std::string before = rows();
  const std::uint64_t large = index_bytes();
  const auto engine = open();
  EXPECT_TRUE(testing::wait_until_true([&] { return index_bytes() < large / 4; }));
  EXPECT_EQ(rows(), before);
  const auto group = engine->new_group();
  group->put(Table::kIndex, row_key('a', 500), "new");
  EXPECT_TRUE(engine->commit(*group, Engine::Sync::kSynced).has_value());
  EXPECT_EQ(value("select count(*) from locksley_index"), "21");
}

TEST_F(IndexRewriteTest, ReadersThatBeginMeanwhileFindEveryRow) {
  run("update locksley_node set alive = false");
  const auto engine = open();
  std::atomic<bool> is_ending = false;
  std::atomic<int> readings = 0;
  std::thread reader([&] {
    for (; !is_ending; ++readings) {
      const EngineReading reading(*engine);
      std::uint64_t visited = 0;
      EXPECT_TRUE(reading.visit_prefix(Table::kIndex, Key('a'), [&](std::string_view, std::string_view) {
        ++visited;
        return true;
      }));
      EXPECT_EQ(visited, 20U);
      std::string bytes;
      EXPECT_TRUE(reading.get(Table::kIndex, row_key('a', 7), bytes).value_or(false));
    }
  });
  run(fmt::format("update locksley_node set alive = true where node = {}", node_));
  int rewritten = 0;
  EXPECT_TRUE(testing::wait_until_true([&] {
    rewritten += rewrite(node_) == Freed::kDone ? 1 : 0;
    return rewritten >= 10 && readings >= 10;
  }));
  is_ending = true;
  reader.join();
}

TEST_F(IndexRewriteTest, AnIndexThatIsInUseStaysAsItIs) {
  const std::string before = rows();
  const std::uint64_t large = index_bytes();
  {
    testing::TestConnection reader(disk.url());
    reader.run("begin; lock table locksley_index in access share mode");
    EXPECT_EQ(rewrite(node_), Freed::kLocked);
  }
  {
    // It has a snapshot, and no lock yet.
    testing::TestConnection dump(disk.url());
    dump.run("set application_name = 'pg_dump'");
    EXPECT_EQ(rewrite(node_), Freed::kLocked);
  }
  EXPECT_EQ(index_bytes(), large);
  EXPECT_EQ(rows(), before);
  EXPECT_TRUE(testing::wait_until_true([&] { return rewrite(node_) == Freed::kDone; }))
      << "once they are gone";
  EXPECT_EQ(rows(), before);
}

TEST_F(IndexRewriteTest, AFencedDaemonLeavesTheIndexAlone) {
  run("update locksley_node set alive = false");
  const std::uint64_t large = index_bytes();
  EXPECT_EQ(rewrite(node_), Freed::kFenced);
  EXPECT_EQ(index_bytes(), large);
}

TEST_F(IndexRewriteTest, ARoleThatMayNotTruncateTheIndexIsToldSo) {
  const std::string plain = "plain_" + disk.name();
  run(
      fmt::format("create role {0} login; grant usage on schema {1} to {0}; "
                  "grant select, insert, update, delete on all tables in schema {1} to {0}",
                  plain, disk.name()));
  std::string url = disk.url();
  url.replace(url.find("locksley@"), std::string_view("locksley@").size(), plain + "@");
  connection_ = std::move(*PgConnection::open(url, "rewrite"));
  const std::string before = rows();
  EXPECT_EQ(rewrite(node_), Freed::kForbidden);
  EXPECT_EQ(rows(), before);
  connection_.reset();
  run("drop owned by " + plain + "; drop role " + plain);
}

}  // namespace
}  // namespace locksley::daemon
