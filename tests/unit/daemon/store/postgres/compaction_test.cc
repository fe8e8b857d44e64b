// Compaction of the tables of generations, in states that an engine reaches rarely.
#include "daemon/store/postgres/compaction.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/key.h"
#include "daemon/store/postgres/connection.h"
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
    if (!opened) throw std::runtime_error(opened.error());
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

// The commit has begun the third generation, but the engine does not know. Meanwhile the first one can be truncated.
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

// As after moves that were not finished: no table is empty, and each generation that is mostly deleted comes after a table
// that is full.
TEST_F(CompactionTest, RowsMoveThoughAllTablesAreInUseAndFull) {
  open().reset();  // the tables are there
  constexpr std::int16_t kTables = Generations::kTablesOfBatches;
  for (int number = 1; number <= kTables; ++number) {
    const std::uint64_t first = static_cast<std::uint64_t>(number - 1) * kBatchesOfAGeneration;
    run(
        fmt::format("insert into locksley_generation values ('1', {0}, {1}); "
                    "insert into locksley_payload select batch & 63, batch, -9223372036854775808, "
                    "convert_to(repeat('x', {2}), 'utf8'), {1} from generate_series({0}, {0} + 9) batch; "
                    "delete from locksley_payload where batch > {0} and batch <= {0} + 9",
                    first, number, kValue));
  }
  const std::string node =
      value("insert into locksley_node (alive, beat, committed) values (true, 0, 0) returning node");
  const auto connection = PgConnection::open(disk.url(), "compaction");
  ASSERT_TRUE(connection.has_value());
  const auto loaded = read_generations(**connection, now() + std::chrono::seconds(30));
  ASSERT_TRUE(loaded.has_value());
  SharedGenerations generations;
  {
    const MutexLock lock(generations.mutex);
    generations.value = *loaded;
    generations.are_unknown = false;
  }
  ASSERT_EQ(loaded->empty_table(Table::kPayloads), Generations::kRest);
  const TableSizes sizes(kValue);  // so a table of one batch is full
  Compaction compaction(generations, sizes, std::stoi(node),
                        {.reply = std::chrono::seconds(30), .moving = std::chrono::seconds(30)});
  const auto empty = [&] {
    const auto hindrance = compaction.run(**connection);
    EXPECT_TRUE(hindrance.has_value() && *hindrance == Freed::kDone);
    const MutexLock lock(generations.mutex);
    return generations.value.empty_table(Table::kPayloads);
  };
  // Several times, if the tables cannot all be looked at in one.
  EXPECT_TRUE(testing::wait_until_true([&] { return empty() != Generations::kRest; }));
  EXPECT_EQ(value("select count(*) from locksley_payload"), std::to_string(kTables));
  EXPECT_EQ(misplaced(), "0");
}

}  // namespace
}  // namespace locksley::daemon
