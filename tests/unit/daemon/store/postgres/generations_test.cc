// Generations of batches in tables that are truncated: which rows go where, and that the room comes
// back.
#include "daemon/store/postgres/generations.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/engine/key.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/table_upkeep.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Span = Generations::Span;

constexpr std::uint64_t kEnough = 100;

// As if the writer had put so many bytes of payloads for this batch.
void put(Generations& generations, std::uint64_t batch, std::size_t bytes) {
  generations.begin({.payloads = kEnough, .results = kEnough});
  PostgresGroup group;
  group.put(Table::kPayloads, Key().append(batch).append(0), std::string(bytes, 'x'));
  generations.count(group);
}
std::int16_t of(const Generations& generations, std::int64_t batch) {
  return generations.number_of(Table::kPayloads, batch);
}

TEST(GenerationsTest, NewBatchesBeginAnotherGenerationOnceOneHasEnough) {
  Generations generations;
  put(generations, 5, 60);
  put(generations, 6, 60);
  put(generations, 7, 60);
  EXPECT_EQ(of(generations, 5), 1);
  EXPECT_EQ(of(generations, 6), 1);
  EXPECT_EQ(of(generations, 7), 2);
  put(generations, 5, 1000);
  put(generations, 8, 30);
  EXPECT_EQ(of(generations, 8), 2) << "what is added to an earlier batch does not count";
  EXPECT_EQ(of(generations, 5), 1) << "a batch stays where it is";
}

TEST(GenerationsTest, WithoutAnEmptyTableTheLastGoesOn) {
  Generations generations;
  for (std::uint64_t batch = 1; batch <= 20; ++batch) put(generations, batch, kEnough);
  EXPECT_EQ(of(generations, 7), 7);
  EXPECT_EQ(of(generations, 20), 7);
  EXPECT_TRUE(generations.lacks_tables(Table::kPayloads, kEnough));
  EXPECT_EQ(generations.empty_table(Table::kPayloads), 8) << "kept for the remaining rows of others";
}

TEST(GenerationsTest, ATableThatWasTruncatedIsUsedAgain) {
  Generations generations;
  for (std::uint64_t batch = 1; batch <= 7; ++batch) put(generations, batch, kEnough);
  const std::vector<Span> earlier = generations.earlier(Table::kPayloads);
  ASSERT_EQ(earlier.size(), 6U);
  generations.end(earlier[2]);
  put(generations, 8, kEnough);
  EXPECT_EQ(of(generations, 8), earlier[2].number);
  EXPECT_EQ(of(generations, 7), 7);
  generations.end(earlier[2]);
  EXPECT_EQ(of(generations, 8), earlier[2].number) << "that span had ended before";
}

// Seven generations, of ten batches each.
Generations seven() {
  Generations generations;
  for (std::uint64_t batch = 0; batch < 70; ++batch) put(generations, batch, kEnough / 10);
  return generations;
}

TEST(GenerationsTest, WhatIsLeftOfAGenerationMovesToAnEmptyTableInSteps) {
  Generations generations = seven();
  Span span = generations.earlier(Table::kPayloads)[1];
  generations.move(span, 14, 8);
  EXPECT_EQ(of(generations, 9), 1);
  EXPECT_EQ(of(generations, 10), 8);
  EXPECT_EQ(of(generations, 13), 8);
  EXPECT_EQ(of(generations, 14), 2);
  span.first = 14;
  EXPECT_EQ(generations.before(span), 8);
  generations.move(span, 17, 8);
  EXPECT_EQ(of(generations, 16), 8);
  EXPECT_EQ(of(generations, 17), 2);
  span.first = 17;
  generations.move(span, std::nullopt, 8);
  EXPECT_EQ(of(generations, 19), 8);
  EXPECT_EQ(of(generations, 20), 3);
  EXPECT_EQ(generations.empty_table(Table::kPayloads), 2);
}

TEST(GenerationsTest, WhatIsLeftOfAGenerationMovesAsAWhole) {
  Generations generations = seven();
  const std::vector<Span> earlier = generations.earlier(Table::kPayloads);
  generations.move(earlier[1], std::nullopt, 8);
  EXPECT_EQ(of(generations, 10), 8);
  EXPECT_EQ(of(generations, 20), 3);
  EXPECT_EQ(generations.before(earlier[2]), 8);
  generations.move(earlier[2], std::nullopt, 8);
  EXPECT_EQ(of(generations, 29), 8) << "it joined the one before";
  EXPECT_EQ(of(generations, 30), 4);
  EXPECT_EQ(generations.before(earlier[0]), Generations::kRest);
}

class TablesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kGeneration = 100'000;
  static constexpr std::uint64_t kValue = 10'000;

  std::unique_ptr<Engine> open(std::uint64_t generation = kGeneration) {
    PostgresOptions options = disk.options();
    options.generation_bytes = generation;
    // A step of the upkeep that takes longer than a lease is given up. On a busy machine, no step
    // of a shorter one would succeed.
    options.lease = std::chrono::seconds(3);
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  // Batches with one payload each.
  void put(Engine& engine, std::uint64_t first, std::uint64_t end) LOCKSLEY_REQUIRES(kStoreWriter) {
    for (std::uint64_t batch = first; batch < end; ++batch) {
      const auto group = engine.new_group();
      group->put(Table::kPayloads, Key().append(batch).append(0), std::string(kValue, 'x'));
      ASSERT_TRUE(engine.commit(*group, Engine::Sync::kSynced).has_value());
    }
  }
  void erase(Engine& engine, std::uint64_t first, std::uint64_t end) LOCKSLEY_REQUIRES(kStoreWriter) {
    for (std::uint64_t batch = first; batch < end; ++batch) {
      const auto group = engine.new_group();
      group->erase_range(Table::kPayloads, Key().append(batch), Key().append(batch + 1),
                         Engine::Group::Rows::kAllCommitted);
      ASSERT_TRUE(engine.commit(*group, Engine::Sync::kSynced).has_value());
    }
  }
  // The batches that have payloads, by the engine.
  std::vector<std::uint64_t> batches(Engine& engine) {
    const EngineReading reading(engine);
    std::vector<std::uint64_t> found;
    const auto visited = reading.visit({.table = Table::kPayloads, .low = "", .high = ""},
                                       [&](std::string_view key, std::string_view value) {
                                         EXPECT_EQ(value.size(), kValue);
                                         found.push_back(key_number(key.substr(0, sizeof(std::uint64_t))));
                                         return true;
                                       });
    EXPECT_TRUE(visited.has_value());
    return found;
  }
  static std::vector<std::uint64_t> from_to(std::uint64_t first, std::uint64_t end) {
    std::vector<std::uint64_t> all;
    for (; first < end; ++first) all.push_back(first);
    return all;
  }
  std::string value(const std::string& sql) { return testing::TestConnection(disk.url()).value(sql); }
  // Bytes of the tables of payloads, without their empty indexes.
  std::uint64_t table_bytes() {
    return std::stoull(
        value("select sum(pg_table_size(relid)) from pg_partition_tree('locksley_payload') where isleaf"));
  }
  std::string tables_in_use() {
    return value("select count(*) from locksley_generation where place = '1' and generation <> 0");
  }

  testing::PostgresDisk disk;
};

TEST_F(TablesTest, RoomComesBackBesideASessionThatIsIdleInATransaction) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  testing::TestConnection idle(disk.url());
  idle.run("begin isolation level repeatable read; select count(*) from locksley_cluster");
  std::uint64_t batch = 0;
  const auto churn = [&] {
    kStoreWriter.assert_held();
    put(*engine, batch, batch + 20);
    if (batch != 0) erase(*engine, batch - 20, batch);
    batch += 20;
  };
  for (int i = 0; i < 10; ++i) churn();
  EXPECT_TRUE(testing::wait_until_true([&] {
    churn();
    return table_bytes() < 8 * kGeneration;
  })) << table_bytes()
      << " of " << batch * kValue;
  EXPECT_EQ(batches(*engine), from_to(batch - 20, batch));
}

TEST_F(TablesTest, WhatIsLeftOfManyGenerationsTakesLittleRoomBesideASessionThatIsIdleInATransaction) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  testing::TestConnection idle(disk.url());
  idle.run("begin isolation level repeatable read; select count(*) from locksley_cluster");
  std::vector<std::uint64_t> kept;
  std::uint64_t batch = 0;
  for (; batch < 600; batch += 10) {
    put(*engine, batch, batch + 10);
    erase(*engine, batch + 1, batch + 10);
    kept.push_back(batch);
  }
  const std::uint64_t live = kept.size() * kValue;
  engine->set_live_bytes(live);
  EXPECT_GT(table_bytes(), 4 * live);
  EXPECT_TRUE(testing::wait_until_true([&] {
    put(*engine, batch, batch + 1);
    erase(*engine, batch, batch + 1);
    ++batch;
    return table_bytes() < 2 * live + 4 * kGeneration;
  })) << table_bytes()
      << " where " << live << " live";
  EXPECT_EQ(value("select count(*) from locksley_payload_0"), "0");
  EXPECT_EQ(batches(*engine), kept);
}

// Of rows with small values most is what the server needs for each row.
TEST_F(TablesTest, ATableWhoseRowsAllLiveStaysHoweverSmallTheyAre) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  for (std::uint64_t batch = 0; batch < 200; ++batch) {
    const auto group = engine->new_group();
    for (std::uint64_t row = 0; row < 200; ++row)
      group->put(Table::kPayloads, Key().append(batch).append(row), "ten bytes.");
    ASSERT_TRUE(engine->commit(*group, Engine::Sync::kSynced).has_value());
  }
  engine->set_live_bytes(200 * 200 * 10);
  const auto spans = [&] {
    return value(
        "select string_agg(first || ' ' || generation, ', ' order by first) from locksley_generation");
  };
  const std::string before = spans();
  const auto beats = [&] { return std::stoull(value("select max(beat) from locksley_node")); };
  const std::uint64_t first = beats();
  ASSERT_TRUE(testing::wait_until_true([&] { return beats() >= first + 3; }));
  EXPECT_EQ(spans(), before);
}

TEST_F(TablesTest, AReaderSeesRowsThatMoveWhileItBegins) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  put(*engine, 0, 5);
  testing::TestConnection mover(disk.url());
  mover.run(
      "begin; insert into locksley_payload_8 select shard, batch, part, value, 8 from locksley_payload_1; "
      "truncate locksley_payload_1");
  std::vector<std::uint64_t> found;
  std::thread reader([&] { found = batches(*engine); });
  EXPECT_TRUE(testing::wait_until_true(
      [&] { return value("select count(*) from pg_locks where not granted") != "0"; }));
  mover.run("commit");
  reader.join();
  EXPECT_EQ(found, from_to(0, 5));
}

TEST_F(TablesTest, ABatchStaysInItsTableAcrossARestart) {
  const ThreadRoleScope role(kStoreWriter);
  {
    const auto engine = open();
    put(*engine, 0, 25);
  }
  const std::string before = tables_in_use();
  EXPECT_EQ(before, "3");
  const auto engine = open();
  // The same rows again: they are replaced.
  put(*engine, 0, 25);
  EXPECT_EQ(value("select count(*) from locksley_payload"), "25");
  EXPECT_EQ(batches(*engine), from_to(0, 25));
}

TEST_F(TablesTest, ATableThatIsInUseIsLeftAsItIs) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  testing::TestConnection dump(disk.url());
  dump.run("begin; lock table locksley_payload in access share mode");
  put(*engine, 0, 40);
  erase(*engine, 0, 40);
  put(*engine, 40, 50);
  EXPECT_EQ(batches(*engine), from_to(40, 50)) << "writes and readings go on";
  EXPECT_NE(tables_in_use(), "0");
}

TEST_F(TablesTest, AFencedDaemonTruncatesNothing) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  put(*engine, 0, 25);
  const auto connection = PgConnection::open(disk.url(), "fenced");
  ASSERT_TRUE(connection.has_value());
  const Instant deadline = now() + std::chrono::seconds(30);
  auto generations = read_generations(**connection, deadline);
  ASSERT_TRUE(generations.has_value());
  constexpr std::int32_t kNobody = 999;
  for (const Span& span : generations->earlier(Table::kPayloads)) {
    MovePlanner::Target target{.number = 8};
    const auto truncated = move_rows(**connection, kNobody, span, {}, target, *generations, deadline);
    ASSERT_TRUE(truncated.has_value());
    EXPECT_EQ(*truncated, Freed::kFenced);
  }
  EXPECT_EQ(batches(*engine), from_to(0, 25));
  EXPECT_EQ(tables_in_use(), "3");
}

TEST_F(TablesTest, ARoleThatMayNotTruncateGoesOnWithoutIt) {
  const ThreadRoleScope role(kStoreWriter);
  open().reset();  // the tables are there
  testing::TestConnection owner(disk.url());
  const std::string plain = "plain_" + disk.name();
  owner.run("create role " + plain + " login; grant usage on schema " + disk.name() + " to " + plain +
            "; grant select, insert, update, delete on all tables in schema " + disk.name() + " to " + plain);
  {
    PostgresOptions options = disk.options();
    options.url.replace(options.url.find("locksley@"), std::string_view("locksley@").size(), plain + "@");
    options.generation_bytes = kGeneration;
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    put(**opened, 0, 30);
    erase(**opened, 0, 20);
    put(**opened, 30, 40);
    EXPECT_EQ(batches(**opened), from_to(20, 40));
  }
  EXPECT_EQ(tables_in_use(), "4");
  owner.run("drop owned by " + plain + "; drop role " + plain);
}

TEST_F(TablesTest, TablesWithoutGenerationsAreConverted) {
  const ThreadRoleScope role(kStoreWriter);
  {
    testing::TestConnection earlier(disk.url());
    earlier.run(R"(
      create table locksley_cluster (form int, id uuid, shards int);
      create table locksley_node (node int generated always as identity primary key, name text, wire text, workers text,
        alive bool not null, beat bigint not null, committed bigint not null) with (fillfactor = 20);
      create table locksley_shard (shard int primary key, owner int);
      create table locksley_index (shard int, batch bigint, kind "char", part bigint, value bytea not null,
        primary key (shard, batch, kind, part));
      create table locksley_payload (shard int, batch bigint, part bigint, value bytea not null,
        primary key (shard, batch, part));
      create table locksley_result (shard int, batch bigint, part bigint, value bytea not null,
        primary key (shard, batch, part));
      create table locksley_name (place "char", name bytea, value bytea not null, primary key (place, name));
      insert into locksley_cluster values (1, gen_random_uuid(), 64);
      insert into locksley_shard select shard, null from generate_series(0, 63) shard;
      insert into locksley_payload select 3, 3, -9223372036854775808, convert_to(repeat('x', 10000), 'utf8');)");
  }
  const auto engine = open();
  EXPECT_EQ(batches(*engine), from_to(3, 4));
  put(*engine, 4, 30);
  erase(*engine, 3, 5);
  EXPECT_EQ(batches(*engine), from_to(5, 30));
  EXPECT_EQ(value("select form from locksley_cluster"), "2");
}

}  // namespace
}  // namespace locksley::daemon
