// One daemon writes; another takes over once the first is silent, and then the first can write
// nothing.
#include <gmock/gmock.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "daemon/store/engine/key.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/schema.h"
#include "daemon/store/rows/rows.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_proxy.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Opened = std::expected<std::unique_ptr<Engine>, StoreRefusal>;

class FencingTest : public ::testing::Test {
 protected:
  Opened open(const PostgresOptions& options) {
    return postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
  }
  // A daemon whose connections can be frozen.
  std::unique_ptr<Engine> open_first(std::optional<std::chrono::milliseconds> patience = {}) {
    PostgresOptions options = disk.options();
    options.patience = patience.value_or(options.patience);
    options.url =
        "postgresql://locksley@/postgres?host=" + proxy.folder() + "&options=-csearch_path%3D" + disk.name();
    options.on_fenced = [this] { ++fenced; };
    auto opened = open(options);
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  std::unique_ptr<Engine> open_second() {
    auto opened = open(disk.options());
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  EngineDone put(Engine& engine, std::string_view key) LOCKSLEY_REQUIRES(kStoreWriter) {
    const auto group = engine.new_group();
    group->put(Table::kIndex, key, "");
    group->put(Table::kPayloads, Key().append(1).append(0), "");
    group->erase(Table::kIndex, "kept");
    return engine.commit(*group, Engine::Sync::kSynced);
  }
  std::string rows(const std::string& table) {
    return testing::TestConnection(disk.url()).value("select count(*) from locksley_" + table);
  }

  testing::PostgresDisk disk;
  testing::PostgresProxy proxy{testing::postgres_server().socket()};
  std::atomic<int> fenced{0};
};

TEST_F(FencingTest, AFencedDaemonCommitsNothing) {
  const ThreadRoleScope role(kStoreWriter);
  // However long it takes to connect again and to ask who may write.
  const auto first = open_first(std::chrono::minutes(1));
  const auto group = first->new_group();
  group->put(Table::kIndex, "kept", "");
  ASSERT_TRUE(first->commit(*group, Engine::Sync::kSynced).has_value());
  proxy.freeze();
  const auto second = open_second();
  proxy.thaw();
  const auto done = put(*first, "a");
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().kind, EngineError::Kind::kFenced);
  EXPECT_EQ(fenced, 1);
  EXPECT_EQ(rows("name"), "1") << "`kept` is there, and `a` is not";
  EXPECT_EQ(rows("payload"), "0");
  const auto reopened = first->reopen();
  ASSERT_FALSE(reopened.has_value());
  EXPECT_EQ(reopened.error().kind, EngineError::Kind::kFenced);
  ASSERT_TRUE(put(*second, "b").has_value()) << "the second goes on";
}

TEST_F(FencingTest, AFencedDaemonHearsOfItThoughItHasNothingToWrite) {
  const ThreadRoleScope role(kStoreWriter);
  const auto first = open_first();
  proxy.freeze();
  const auto second = open_second();
  proxy.thaw();
  EXPECT_TRUE(testing::wait_until_true([this] { return fenced == 1; }));
}

TEST_F(FencingTest, ATransactionThatADaemonLeavesOpenIsEnded) {
  const ThreadRoleScope role(kStoreWriter);
  const auto first = open_first();
  proxy.set_fault(testing::PostgresProxy::Fault::kFreeze);
  std::thread paused([&] {
    const ThreadRoleScope of_first(kStoreWriter);
    const auto done = put(*first, "a");
    EXPECT_FALSE(done.has_value());
  });
  EXPECT_TRUE(testing::wait_until_true([this] { return proxy.is_frozen(); }));
  std::ostringstream lines;
  const auto second = postgres_engine(disk.options())(
      {"", config::Durability::kFsync,
       std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines))});
  EXPECT_TRUE(second.has_value());
  EXPECT_THAT(lines.str(), HasSubstr("its sessions are ended"));
  proxy.thaw();
  paused.join();
  EXPECT_EQ(rows("name"), "0");
  EXPECT_EQ(rows("payload"), "0");
  // The write may have failed only because its transaction was ended: then the daemon learns later
  // that it is fenced.
  EXPECT_TRUE(testing::wait_until_true([this] { return fenced == 1; }));
}

// Values that take the link longer than the lease by which the second daemon goes: 4.5 s, and 3 s.
TEST_F(FencingTest, ADaemonThatSendsLargeValuesOverASlowLinkBeatsMeanwhile) {
  const ThreadRoleScope role(kStoreWriter);
  const auto first = open_first();
  const std::string large(std::size_t{3} << 19, 'x');
  const auto group = first->new_group();
  const Key key = Key().append(1).append(0);
  group->put(Table::kIndex, row_key(kAcceptedKey, 1), large);
  group->put(Table::kPayloads, key, large);
  group->put(Table::kResults, key, large);
  group->put(Table::kResults, Key().append(2).append(0), "small");
  proxy.slow_down(std::size_t{1} << 20);
  std::atomic<bool> is_done{false};
  std::thread second([&] {
    PostgresOptions options = disk.options();
    options.lease = std::chrono::seconds(3);
    while (!is_done) EXPECT_FALSE(open(options).has_value());
  });
  const auto done = first->commit(*group, Engine::Sync::kSynced);
  is_done = true;
  second.join();
  ASSERT_TRUE(done.has_value()) << done.error().what;
  EXPECT_EQ(fenced, 0);
  const EngineReading reading(*first);
  for (const auto& [table, at] : {std::pair{Table::kIndex, row_key(kAcceptedKey, 1)},
                                  std::pair{Table::kPayloads, key}, std::pair{Table::kResults, key}}) {
    std::string value;
    EXPECT_TRUE(reading.get(table, at, value).value_or(false));
    EXPECT_TRUE(value == large);
  }
  EXPECT_EQ(rows("result"), "2");
}

// It writes large values as all others.
TEST_F(FencingTest, ARoleThatMayNotCreateTemporaryTablesWritesLargeValues) {
  const ThreadRoleScope role(kStoreWriter);
  open_second().reset();  // the tables are there
  testing::TestConnection owner(disk.url());
  const std::string plain = "plain_" + disk.name();
  owner.run("create role " + plain + " login; grant usage on schema " + disk.name() + " to " + plain +
            "; grant select, insert, update, delete on all tables in schema " + disk.name() + " to " + plain +
            "; revoke temporary on database postgres from public");
  {
    PostgresOptions options = disk.options();
    options.url.replace(options.url.find("locksley@"), std::string_view("locksley@").size(), plain + "@");
    const auto opened = open(options);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    const auto group = (*opened)->new_group();
    group->put(Table::kResults, Key().append(1).append(0), std::string(std::size_t{2} << 20, 'x'));
    EXPECT_TRUE((*opened)->commit(*group, Engine::Sync::kSynced).has_value());
  }
  EXPECT_EQ(rows("result"), "1");
  owner.run("grant temporary on database postgres to public; drop owned by " + plain + "; drop role " +
            plain);
}

TEST_F(FencingTest, TheReadingsOfAFencedDaemonAreEnded) {
  const auto first = open_first();
  const EngineReading reading(*first);
  auto cursor = reading.scan({.table = Table::kPayloads, .low = "", .high = ""});  // its transaction is open
  ASSERT_TRUE(cursor->status().has_value());
  proxy.freeze();
  const auto second = open_second();
  EXPECT_TRUE(testing::wait_until_true([&] {
    return testing::TestConnection(disk.url())
               .value("select count(*) from pg_stat_activity where application_name like 'locksley %/1%'") ==
           "0";
  }));
  proxy.thaw();
}

TEST_F(FencingTest, AnIdleDaemonIsNotFenced) {
  const auto first = open_first();
  std::this_thread::sleep_for(3 * disk.options().lease);
  // The second goes by its own lease, which is so long that a test that is held up is not taken for
  // silence.
  PostgresOptions options = disk.options();
  options.lease = std::chrono::seconds(10);
  const auto second = open(options);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().what, HasSubstr("in use by another daemon (test, node 1)"));
  EXPECT_EQ(fenced, 0);
}

TEST_F(FencingTest, AfterAnOrderlyEndTheNextNeedNotWait) {
  PostgresOptions options = disk.options();
  options.lease = std::chrono::hours(1);
  ASSERT_TRUE(open(options).has_value());
  EXPECT_TRUE(open(options).has_value());
}

TEST_F(FencingTest, OfTwoThatStartAtOnceOneServes) {
  // So long that none is silent for it because the test is held up.
  PostgresOptions options = disk.options();
  options.lease = std::chrono::seconds(3);
  for (int round = 0; round < 5; ++round) {
    Opened one;
    Opened other;
    std::thread thread([&] { one = open(options); });
    other = open(options);
    thread.join();
    EXPECT_NE(one.has_value(), other.has_value());
  }
}

TEST_F(FencingTest, ADatabaseWithoutAStandbyIsRefusedUnlessToldOtherwise) {
  PostgresOptions options = disk.options();
  options.replication = config::Replication::kRequired;
  const auto refused = open(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().what, HasSubstr("synchronous_standby_names"));
  options.replication = config::Replication::kProvider;
  EXPECT_TRUE(open(options).has_value());
}

TEST_F(FencingTest, ADatabaseThatCommitsBeforeItWritesIsRefused) {
  PostgresOptions options = disk.options();
  options.url += "%20-csynchronous_commit%3Doff";
  const auto refused = open(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().what, HasSubstr("synchronous_commit is off"));
}

TEST_F(FencingTest, TablesOfAnotherVersionAreRefused) {
  ASSERT_TRUE(open(disk.options()).has_value());
  testing::TestConnection(disk.url()).run("update locksley_cluster set form = 99");
  const auto refused = open(disk.options());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().what, HasSubstr("'99'"));
}

TEST_F(FencingTest, TablesOfAnEarlierVersionAreNotConvertedByADaemonThatWasFenced) {
  open_second().reset();  // its row is not alive any more
  testing::TestConnection server(disk.url());
  server.run("drop table locksley_payload, locksley_result, locksley_generation");
  for (const std::string table : {"locksley_payload", "locksley_result"}) {
    server.run(
        "create table " + table +
        " (shard int, batch bigint, part bigint, value bytea not null, primary key (shard, batch, part))");
  }
  server.run("update locksley_cluster set form = 1");
  const auto connection = PgConnection::open(disk.url(), "test");
  ASSERT_TRUE(connection.has_value());
  EXPECT_FALSE(convert_schema(**connection, 1).has_value());
  EXPECT_EQ(server.value("select form from locksley_cluster"), "1");
  EXPECT_EQ(server.value("select to_regclass('locksley_payload_1') is null"), "t");
  EXPECT_NE(open_second(), nullptr) << "the active daemon converts them";
  EXPECT_EQ(server.value("select form from locksley_cluster"), "2");
}

TEST_F(FencingTest, APasswordIsInNoMessage) {
  PostgresOptions options = disk.options();
  options.url = "postgresql://locksley:geheim@127.0.0.1:1/store?connect_timeout=2";
  const auto refused = open(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().what, HasSubstr("postgresql://127.0.0.1:1/store"));
  EXPECT_THAT(refused.error().what, Not(HasSubstr("geheim")));
  options.url = "postgresql://locksley:geheim@[::1/store";
  const auto wrong = open(options);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().what, Not(HasSubstr("geheim")));
}

}  // namespace
}  // namespace locksley::daemon
