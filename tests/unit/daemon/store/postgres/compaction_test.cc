// Compaction of the tables of generations, in states that an engine reaches rarely.
#include "daemon/store/postgres/compaction.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/engine/key.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/table_upkeep.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_proxy.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

class CompactionTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kValue = 10'000;
  static constexpr std::uint64_t kBatchesOfAGeneration = 10;

  // Through the proxy. A generation has kBatchesOfAGeneration.
  std::unique_ptr<Engine> open() {
    PostgresOptions options = disk.options();
    options.url =
        "postgresql://locksley@/postgres?host=" + proxy.folder() + "&options=-csearch_path%3D" + disk.name();
    options.generation_bytes = kBatchesOfAGeneration * kValue;
    options.patience = std::chrono::milliseconds(0);  // what became of a commit is not found out
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  // One payload.
  EngineDone put(Engine& engine, std::uint64_t batch) LOCKSLEY_REQUIRES(kStoreWriter) {
    const auto group = engine.new_group();
    group->put(Table::kPayloads, Key().append(batch).append(0), std::string(kValue, 'x'));
    return engine.commit(*group, Engine::Sync::kSynced);
  }
  std::string value(const std::string& sql) { return testing::TestConnection(disk.url()).value(sql); }
  void run(const std::string& sql) { testing::TestConnection(disk.url()).run(sql); }
  std::string spans() {
    return value(
        "select string_agg(first || ':' || generation, ' ' order by first) from locksley_generation where "
        "place = '1'");
  }
  // Rows that are not in the table that the spans say.
  std::string misplaced() {
    return value(
        "select count(*) from locksley_payload p where generation <> coalesce((select g.generation from "
        "locksley_generation g where place = '1' and first <= batch order by first desc limit 1), 0)");
  }

  testing::PostgresDisk disk;
  testing::PostgresProxy proxy{testing::postgres_server().socket()};
};

// The commit has begun the third generation, but the engine does not know. Meanwhile the first one
// can be truncated.
TEST_F(CompactionTest, AGenerationThatBeganInACommitOfUnknownOutcomeIsNotForgotten) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  constexpr std::uint64_t kNext = 2 * kBatchesOfAGeneration;
  for (std::uint64_t batch = 0; batch < kNext; ++batch) ASSERT_TRUE(put(*engine, batch).has_value());
  ASSERT_EQ(spans(), "0:1 10:2");
  proxy.set_fault(testing::PostgresProxy::Fault::kCutAfter);
  ASSERT_FALSE(put(*engine, kNext).has_value());
  ASSERT_TRUE(testing::wait_until_true([&] { return spans() == "0:1 10:2 20:3"; }));
  run("delete from locksley_payload_1");
  // The thread of the beats looks for tables to truncate after each of them.
  const auto beats = [&] { return std::stoull(value("select max(beat) from locksley_node")); };
  const std::uint64_t before = beats();
  ASSERT_TRUE(testing::wait_until_true([&] { return beats() >= before + 5; }));
  EXPECT_EQ(spans(), "0:1 10:2 20:3");
  ASSERT_TRUE(engine->reopen().has_value());
  ASSERT_TRUE(put(*engine, kNext).has_value()) << "the same row again";
  EXPECT_EQ(value("select count(*) from locksley_payload where batch = 20"), "1");
  EXPECT_EQ(misplaced(), "0");
  EXPECT_TRUE(testing::wait_until_true([&] { return spans() == "10:2 20:3"; }))
      << "now that the engine knows, it goes on: " << spans();
}

// Compaction without an engine, on tables that a test fills by itself.
class CompactionAloneTest : public CompactionTest {
 protected:
  CompactionAloneTest() { open().reset(); }  // the tables are there

  // A generation in the table `number`, with the batches of `first` and those that follow, one
  // value each.
  void add_generation(int number, std::uint64_t first, std::uint64_t batches, std::uint64_t value) {
    run(fmt::format("insert into locksley_generation values ('1', {}, {})", first, number));
    add_rows(number, first, batches, value);
  }
  void add_rows(int number, std::uint64_t first, std::uint64_t batches, std::uint64_t value) {
    run(
        fmt::format("insert into locksley_payload select batch & 63, batch, -9223372036854775808, "
                    "convert_to(repeat('x', {}), 'utf8'), {} from generate_series({}, {}) batch",
                    value, number, first, first + batches - 1));
  }
  void begin(std::uint64_t least_bytes_of_a_generation) {
    const std::string node =
        this->value("insert into locksley_node (alive, beat, committed) values (true, 0, 0) returning node");
    auto opened = PgConnection::open(disk.url(), "compaction");
    ASSERT_TRUE(opened.has_value());
    connection = std::move(*opened);
    const auto loaded = read_generations(*connection, now() + std::chrono::seconds(30));
    ASSERT_TRUE(loaded.has_value());
    {
      const MutexLock lock(generations.mutex);
      generations.value = *loaded;
      generations.are_unknown = false;
    }
    sizes.emplace(least_bytes_of_a_generation);
    compaction.emplace(
        generations, *sizes, std::stoi(node),
        Compaction::Limits{
            .reply = std::chrono::seconds(30), .moving = std::chrono::seconds(30), .pauses = 0});
  }
  void run_once() {
    const auto hindrance = compaction->run(*connection);
    EXPECT_TRUE(hindrance.has_value() && *hindrance == Freed::kDone);
  }
  // Until the generations are as `expected`: not all tables are measured in one run.
  bool runs_until(const std::string& expected) {
    return testing::wait_until_true([&] {
      run_once();
      return spans() == expected;
    });
  }
  // So that all tables, of which each run measures one at least, are measured several times, and
  // move if they are to.
  void run_often() {
    for (int i = 0; i < 10; ++i) run_once();
  }
  std::int16_t empty_table() {
    const MutexLock lock(generations.mutex);
    return generations.value.empty_table(Table::kPayloads);
  }
  using CompactionTest::run;

  std::unique_ptr<PgConnection> connection;
  SharedGenerations generations;
  std::optional<TableSizes> sizes;
  std::optional<Compaction> compaction;
};

// As after moves that were not finished: no table is empty, and each generation that is mostly
// deleted comes after a table that is full.
TEST_F(CompactionAloneTest, RowsMoveThoughAllTablesAreInUseAndFull) {
  constexpr std::int16_t kTables = Generations::kTablesOfBatches;
  for (int number = 1; number <= kTables; ++number) {
    const std::uint64_t first = static_cast<std::uint64_t>(number - 1) * kBatchesOfAGeneration;
    add_generation(number, first, kBatchesOfAGeneration, kValue);
    run(fmt::format("delete from locksley_payload where batch > {0} and batch <= {0} + 9", first));
  }
  begin(kValue);  // so a table of one batch is full
  ASSERT_EQ(empty_table(), Generations::kRest);
  // Several times, if the tables cannot all be measured in one.
  EXPECT_TRUE(testing::wait_until_true([&] {
    run_once();
    return empty_table() != Generations::kRest;
  }));
  EXPECT_EQ(value("select count(*) from locksley_payload"), std::to_string(kTables));
  EXPECT_EQ(misplaced(), "0");
}

// So that its waste does not add to that of a generation that is nearly empty.
TEST_F(CompactionAloneTest, ATableWithRowsThatHaveMovedDoesNotWaitUntilAllTablesAreWasteful) {
  constexpr std::uint64_t kBatches = 100;
  // Fills a page, so that the tables are not much larger than their rows.
  constexpr std::uint64_t kPage = 7'900;
  for (const int number : {1, 2, 3}) {
    const std::uint64_t first = static_cast<std::uint64_t>(number - 1) * kBatches;
    add_generation(number, first, kBatches, kPage);
  }
  run("delete from locksley_payload where batch between 1 and 50");
  begin(15 * kPage);
  ASSERT_TRUE(runs_until("0:4 100:2 200:3")) << spans();
  run("delete from locksley_payload where batch between 51 and 60");
  run_often();
  EXPECT_EQ(spans(), "0:4 100:2 200:3") << "less than a third of it is not live";
  run("delete from locksley_payload where batch between 61 and 70");
  EXPECT_TRUE(runs_until("0:1 100:2 200:3")) << spans();
  EXPECT_EQ(value("select count(*) from locksley_payload_1"), "30");
  EXPECT_EQ(misplaced(), "0");
}

// Values of which one, or few, fit on a page: a table is much larger than its values then, however
// often its rows move.
TEST_F(CompactionAloneTest, RowsThatFillTheirPagesBadlyDoNotMoveForEver) {
  constexpr std::uint64_t kBatches = 500;
  for (const std::uint64_t bytes : {2'800U, 4'050U, 4'200U, 4'900U}) {
    run("truncate locksley_payload, locksley_generation");
    for (const int number : {1, 2, 3})
      add_generation(number, static_cast<std::uint64_t>(number - 1) * kBatches, kBatches, bytes);
    run("delete from locksley_payload where batch between 1 and 300");
    begin(100'000);
    ASSERT_TRUE(runs_until("0:4 500:2 1000:3")) << bytes << ": " << spans();
    run_often();
    EXPECT_EQ(spans(), "0:4 500:2 1000:3") << bytes << ": the rows of the first generation have moved again";
  }
}

// Rows of all sizes: a table from which nothing was deleted is live.
TEST_F(CompactionAloneTest, WhatIsLiveIsEstimatedByPages) {
  for (const std::uint64_t bytes :
       {1U, 100U, 126U, 127U, 1'000U, 2'050U, 4'020U, 4'030U, 4'900U, 7'900U, 8'000U, 8'200U, 131'000U}) {
    run("truncate locksley_payload, locksley_generation");
    constexpr std::uint64_t kMost = 2'000'000;
    add_generation(1, 0, std::min<std::uint64_t>(kMost / bytes, 20'000), bytes);
    begin(1);
    const Generations::Span span{.table = Table::kPayloads, .first = 0, .number = 1};
    const Instant deadline = now() + std::chrono::seconds(30);
    const auto found = bytes_of_first(*connection, {span}, now(), deadline);
    ASSERT_TRUE(found.has_value() && found->at(0).has_value());
    const auto live = static_cast<double>(found->at(0)->live);
    const double part = live / static_cast<double>(found->at(0)->size);
    EXPECT_THAT(part, ::testing::AllOf(::testing::Ge(0.8), ::testing::Le(1.15))) << bytes;
    const auto step = next_step(*connection, span, 1, deadline);
    ASSERT_TRUE(step.has_value() && step->has_value());
    EXPECT_NEAR(static_cast<double>((*step)->table_bytes) / live, 1, 0.1) << bytes;
    EXPECT_EQ((*step)->bytes, (*step)->first_bytes) << bytes;
    EXPECT_EQ((*step)->end, 1) << bytes;
  }
}

// Of a table that is larger than what is read of it.
TEST_F(CompactionAloneTest, WhatIsLiveIsEstimatedFromSomePages) {
  constexpr std::uint64_t kRows = 2'000;
  constexpr std::uint64_t kPage = 7'900;
  add_generation(1, 0, kRows, kPage);
  run("delete from locksley_payload where batch % 3 = 0");
  begin(1);
  const Instant deadline = now() + std::chrono::seconds(30);
  const auto found =
      bytes_of_first(*connection, {{.table = Table::kPayloads, .first = 0, .number = 1}}, now(), deadline);
  ASSERT_TRUE(found.has_value() && found->at(0).has_value());
  EXPECT_NEAR(static_cast<double>(found->at(0)->live) / static_cast<double>(found->at(0)->size), 2.0 / 3,
              0.15);
}

// Half of what is live are large values of a few rows on a page or two, which a sample of the pages
// rarely has.
TEST_F(CompactionAloneTest, RowsDoNotMoveBecauseOfASampleThatIsFarOff) {
  constexpr std::uint64_t kRows = 2'000;
  constexpr std::uint64_t kLargeRows = 140;
  constexpr std::uint64_t kPage = 7'900;
  constexpr std::uint64_t kLarge = 131'000;
  add_generation(1, 0, kRows, kPage);
  add_rows(1, kRows, kLargeRows, kLarge);
  add_generation(2, kRows + kLargeRows, 1, kPage);
  run("delete from locksley_payload where batch % 10 > 0 and batch < 2000");
  begin(kPage);
  run_often();
  EXPECT_EQ(spans(), "0:1 2140:2");
  run("delete from locksley_payload where batch between 2000 and 2100");
  EXPECT_TRUE(runs_until("0:3 2140:2")) << spans();
}

}  // namespace
}  // namespace locksley::daemon
