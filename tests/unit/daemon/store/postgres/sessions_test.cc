// The sessions of an engine: what a role says of them, what ends them, and tables that others have
// locked.
#include <gmock/gmock.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/engine/key.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/connection_pool.h"
#include "daemon/store/postgres/primary_finder.h"
#include "daemon/store/read/reachability.h"
#include "daemon/store/read/stored_payloads.h"
#include "daemon/store/rows/rows.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::wait_until_true;

class SessionsTest : public ::testing::Test {
 protected:
  // `settings`: as a role may have them, such as " -cjit=off".
  std::string url(const std::string& settings) const {
    return testing::postgres_server().url("-csearch_path=" + disk.name() + settings);
  }
  std::unique_ptr<Engine> open(const std::string& settings = {}) {
    PostgresOptions options = disk.options();
    options.url = url(settings);
    options.lease = lease;
    options.reply_time = reply_time;
    options.patience = std::chrono::seconds(20);  // a connection may take long on a busy machine
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  EngineDone put(Engine& engine, std::uint64_t batch) LOCKSLEY_REQUIRES(kStoreWriter) {
    const auto group = engine.new_group();
    group->put(Table::kIndex, row_key(kAcceptedKey, batch), "row");
    return engine.commit(*group, Engine::Sync::kSynced);
  }
  std::string value(const std::string& sql) { return testing::TestConnection(disk.url()).value(sql); }
  // Ends the sessions that have such a name now, and waits until they have ended.
  void end_sessions(const std::string& like) {
    testing::TestConnection server(disk.url());
    const std::string pids = server.value(
        "select coalesce(string_agg(pid::text, ','), '0') from pg_stat_activity where application_name like "
        "'" +
        like + "' and pg_terminate_backend(pid)");
    ASSERT_NE(pids, "0");
    ASSERT_TRUE(wait_until_true([&] {
      return server.value("select count(*) from pg_stat_activity where pid in (" + pids + ")") == "0";
    }));
  }
  std::uint64_t beats() { return std::stoull(value("select max(beat) from locksley_node")); }

  testing::PostgresDisk disk;
  std::chrono::milliseconds lease = disk.options().lease;
  std::chrono::milliseconds reply_time = disk.options().reply_time;
};

TEST_F(SessionsTest, WhatARoleSaysOfASessionDoesNotCount) {
  const auto connection = PgConnection::open(
      url(" -cclient_min_messages=error -cdefault_transaction_isolation=serializable -cstatement_timeout=77 "
          "-clock_timeout=77 -cidle_in_transaction_session_timeout=77 -cidle_session_timeout=77000"),
      "test");
  ASSERT_TRUE(connection.has_value()) << connection.error().error.what;
  const auto are = [&](const std::string& name) {
    const auto shown = (*connection)->run("show " + name, now() + std::chrono::seconds(30));
    return shown ? std::string(bytes_of(**shown, 0, 0)) : shown.error().error.what;
  };
  EXPECT_EQ(are("client_min_messages"), "warning");
  EXPECT_EQ(are("default_transaction_isolation"), "read committed");
  EXPECT_EQ(are("statement_timeout"), "0");
  EXPECT_EQ(are("lock_timeout"), "0");
  EXPECT_EQ(are("idle_in_transaction_session_timeout"), "0");
  EXPECT_EQ(are("idle_session_timeout"), "0");
}

TEST(ConnectionPoolTest, TheLastConnectionIsForReadingsThatMayNotConnect) {
  PrimaryFinder primary(testing::postgres_server().url());
  ConnectionPool pool(primary, "test");
  const auto take = [&](ReadingConnection which) {
    auto taken = pool.take(which);
    if (taken) return std::move(*taken);
    EXPECT_EQ(taken.error().error.kind, EngineError::Kind::kNotOpen);
    return ConnectionPool::Taken(nullptr, {&pool});
  };
  EXPECT_EQ(take(ReadingConnection::kOpen), nullptr);
  auto first = take(ReadingConnection::kAny);
  const PgConnection* const known = first.get();
  pool.give_back(std::move(first));
  auto second = take(ReadingConnection::kAny);
  EXPECT_NE(second.get(), known) << "the only one that is kept stays";
  EXPECT_EQ(take(ReadingConnection::kOpen).get(), known);
  EXPECT_EQ(take(ReadingConnection::kOpen), nullptr) << "it was not given back";
  pool.give_back(std::move(second));
  EXPECT_NE(take(ReadingConnection::kOpen), nullptr);
}

TEST_F(SessionsTest, AReadingThatMayNotConnectFailsAtOnceWhereItWouldHaveTo) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  ASSERT_TRUE(put(*engine, 1).has_value());
  ASSERT_TRUE(put(*engine, 3).has_value());
  const std::array keys{row_key(kAcceptedKey, 1), row_key(kAcceptedKey, 2), row_key(kAcceptedKey, 3)};
  const EngineReading reading(*engine);
  const auto get = [&](ReadingConnection connection) {
    return reading.get_within(Table::kIndex, keys, std::chrono::seconds(30), connection);
  };
  const auto none = get(ReadingConnection::kOpen);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().kind, EngineError::Kind::kNotOpen);
  const RowValues values{"row", std::nullopt, "row"};
  for (const auto connection : {ReadingConnection::kAny, ReadingConnection::kOpen}) {
    const auto rows = get(connection);
    ASSERT_TRUE(rows.has_value()) << rows.error().what;
    EXPECT_EQ(*rows, values);
  }
  end_sessions("% reads");
  EXPECT_EQ(get(ReadingConnection::kOpen).error().kind, EngineError::Kind::kNotOpen);
}

// As PostgreSQL warns with each statement that writes once transaction ids run out.
TEST_F(SessionsTest, AWarningOfAStatementIsNoCancelledWaitForTheStandby) {
  const ThreadRoleScope role(kStoreWriter);
  open().reset();  // the tables are there
  testing::TestConnection server(disk.url());
  server.run(
      "create function warn() returns trigger language plpgsql as $$ begin raise warning 'ids run out'; "
      "return new; end $$");
  for (const std::string table : {"locksley_index", "locksley_node"}) {
    server.run("create trigger warn before insert or update on " + table +
               " for each row execute function warn()");
  }
  std::ostringstream logged;
  PostgresOptions options = disk.options();
  options.cluster = std::make_shared<ClusterBoard>();
  auto opened = postgres_engine(options)(
      {"", config::Durability::kFsync,
       std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged))});
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  const EngineDone done = put(**opened, 1);
  EXPECT_TRUE(done.has_value()) << done.error().what;
  const Instant beaten_at = options.cluster->beaten_at();
  EXPECT_TRUE(wait_until_true([&] { return options.cluster->beaten_at() > beaten_at; }))
      << "the thread of the beats has had none confirmed";
  opened->reset();
  EXPECT_THAT(logged.str(), ::testing::AllOf(::testing::HasSubstr("the database warns"),
                                             ::testing::HasSubstr("ids run out"),
                                             ::testing::Not(::testing::HasSubstr("unknown"))));
}

TEST_F(SessionsTest, AGroupWaitsForABeatWhateverTheIsolationOfTheDatabase) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open(" -cdefault_transaction_isolation=serializable");
  testing::TestConnection beat(disk.url());
  beat.run("begin; update locksley_node set beat = beat + 1");
  auto done = std::async(std::launch::async, [&] {
    const ThreadRoleScope of_writer(kStoreWriter);
    return put(*engine, 1);
  });
  const auto waits = [&] {
    return value(
               "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%set "
               "committed%'") != "0";
  };
  EXPECT_TRUE(wait_until_true(waits));
  beat.run("commit");
  const EngineDone put_done = done.get();
  EXPECT_TRUE(put_done.has_value()) << put_done.error().what;
}

TEST_F(SessionsTest, WhatTheServerHasClosedWhileItWasIdleIsReplacedBeforeAGroup) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  ASSERT_TRUE(put(*engine, 1).has_value());
  end_sessions("locksley %/1");
  const auto ahead = engine->new_group();
  ahead->put(Table::kPayloads, Key().append(2).append(0), std::string(20'000, 'x'));
  const auto written = engine->write_ahead(*ahead);
  ASSERT_TRUE(written.has_value()) << written.error().what;
  ASSERT_TRUE(put(*engine, 2).has_value());
  EXPECT_EQ(value("select count(*) from locksley_payload"), "1");
}

TEST_F(SessionsTest, WhatTheServerHasClosedWhileItWasIdleIsReplacedBeforeAReading) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  ASSERT_TRUE(put(*engine, 1).has_value());
  const auto read = [&] {
    const EngineReading reading(*engine);
    std::string bytes;
    const auto found = reading.get(Table::kIndex, row_key(kAcceptedKey, 1), bytes);
    return found ? bytes : found.error().what;
  };
  ASSERT_EQ(read(), "row");
  end_sessions("locksley %/1 reads");
  EXPECT_EQ(read(), "row");
}

class StoredPayloadsTest : public SessionsTest {
 protected:
  void put_payload(Engine& engine) LOCKSLEY_REQUIRES(kStoreWriter) {
    const std::vector<std::string_view> payloads{"payload"};
    const auto group = engine.new_group();
    group->put(Table::kPayloads, part_key(1, 0), encode_payload_chunk(payloads));
    ASSERT_TRUE(engine.commit(*group, Engine::Sync::kSynced).has_value());
  }
  static std::string fetch(Engine& engine) {
    Reachability reachability(engine);
    return fetch(engine, reachability).value_or("away");
  }
  static std::optional<std::string> fetch(Engine& engine, Reachability& reachability) {
    StoredPayloads payloads(engine, reachability, 1);
    std::vector<std::string_view> views(1);
    std::string scratch;
    if (payloads.fetch(0, views, scratch) == 0) return std::nullopt;
    return std::string(views.front());
  }
};

TEST_F(StoredPayloadsTest, ADatabaseThatIsAwayIsNotWaitedForAndIsSeenToBeBack) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  put_payload(*engine);
  EXPECT_EQ(fetch(*engine), "payload");
  Reachability reachability(*engine);
  disk.cut_power();
  EXPECT_EQ(fetch(*engine, reachability), std::nullopt);
  EXPECT_FALSE(reachability.is_reachable());
  disk.lose_power();
  ASSERT_TRUE(wait_until_true([&] { return reachability.is_reachable(); }));
  EXPECT_EQ(fetch(*engine, reachability), "payload");
}

TEST_F(StoredPayloadsTest, OneThatSaysNothingIsWaitedForOnce) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  put_payload(*engine);
  EXPECT_EQ(fetch(*engine), "payload");
  Reachability reachability(*engine);
  auto lock = std::make_optional<testing::TestConnection>(disk.url());
  lock->run("begin");
  lock->run("lock table locksley_payload in access exclusive mode");  // all else can be read
  EXPECT_EQ(fetch(*engine, reachability), std::nullopt);
  const auto looks = [&] {
    const Instant began = now();
    for (int i = 0; i < 300; ++i) EXPECT_EQ(fetch(*engine, reachability), std::nullopt);
    return now() - began;
  };
  // The shortest, since the test may be held up in one of them.
  EXPECT_LT(std::min({looks(), looks(), looks()}), std::chrono::milliseconds(900))
      << "less than what one reading waits";
  lock.reset();
  ASSERT_TRUE(wait_until_true([&] { return reachability.is_reachable(); }));
  EXPECT_EQ(fetch(*engine, reachability), "payload");
}

// Else one batch with a payload that is large for its network would keep all others waiting.
TEST_F(StoredPayloadsTest, ADatabaseThatRepliesIsReachableThoughAReadingTookTooLong) {
  const ThreadRoleScope role(kStoreWriter);
  const auto engine = open();
  put_payload(*engine);
  Reachability reachability(*engine);
  reachability.note_away(1);
  EXPECT_TRUE(reachability.is_reachable());
}

// A restore from a backup would lose what is there.
TEST_F(SessionsTest, ADatabaseThatIsAwayWhileBatchesAreReadIsNotDamaged) {
  const auto opened = Store::open({.path = "", .engine = disk.engine()}, testing::silent_log());
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  disk.cut_power();
  const auto recovered = (*opened)->recover([](StoredBatch&&) {});
  ASSERT_FALSE(recovered.has_value());
  EXPECT_THAT(recovered.error().what, ::testing::AllOf(::testing::HasSubstr("start the daemon again"),
                                                       ::testing::Not(::testing::HasSubstr("damaged"))));
  disk.lose_power();
}

class LockedTableTest : public SessionsTest {
 protected:
  LockedTableTest() { lease = PostgresOptions{}.lease; }
  // Whether there are beats, each of them sooner than another daemon would take over.
  bool has_beats() {
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t before = beats();
      const auto began = std::chrono::steady_clock::now();
      if (!wait_until_true([&] { return beats() != before; })) return false;
      if (std::chrono::steady_clock::now() - began > lease * 4 / 5) return false;
    }
    return true;
  }
};

// The thread of the beats measures the tables.
TEST_F(LockedTableTest, OfTheIndexDoesNotHoldUpTheBeats) {
  open().reset();  // the tables are there
  testing::TestConnection vacuum(disk.url());
  vacuum.run("begin; lock table locksley_index in access exclusive mode");
  const auto engine = open();
  EXPECT_TRUE(has_beats());
}

// Else a client that looks at a batch holds up all others.
TEST_F(LockedTableTest, OfTheIndexIsNotWaitedForByALookAtABatch) {
  const auto opened = Store::open({.path = "", .engine = disk.engine()}, testing::silent_log());
  ASSERT_TRUE(opened.has_value()) << opened.error().what;
  testing::TestConnection vacuum(disk.url());
  vacuum.run("begin; lock table locksley_index in access exclusive mode");
  auto loaded = std::async(std::launch::async, [&] { return (*opened)->load(1).has_value(); });
  EXPECT_EQ(loaded.wait_for(std::chrono::seconds(10)), std::future_status::ready)
      << "three rows of 20 s each";
  vacuum.run("commit");
  EXPECT_FALSE(loaded.get());
}

// It also looks whether they have rows.
TEST_F(LockedTableTest, OfAGenerationDoesNotHoldUpTheBeats) {
  open().reset();
  testing::TestConnection vacuum(disk.url());
  vacuum.run("insert into locksley_generation values ('1', 0, 1), ('1', 10, 2)");
  const auto engine = open();
  vacuum.run("begin; lock table locksley_payload_1 in access exclusive mode");
  EXPECT_TRUE(has_beats());
}

// The group gives the row of its daemon up now and then.
TEST_F(LockedTableTest, OfTheIndexIsWaitedForByAGroupWithBeatsMeanwhile) {
  const ThreadRoleScope role(kStoreWriter);
  reply_time =
      std::chrono::minutes(1);  // the group must outlast the wait for the lock on a busy machine, too
  const auto engine = open();
  testing::TestConnection vacuum(disk.url());
  vacuum.run("begin; lock table locksley_index in access exclusive mode");
  auto done = std::async(std::launch::async, [&] {
    const ThreadRoleScope of_writer(kStoreWriter);
    return put(*engine, 1);
  });
  EXPECT_TRUE(wait_until_true([&] {
    return value(
               "select count(*) from pg_locks where relation = 'locksley_index'::regclass and not granted "
               "and "
               "mode = 'RowExclusiveLock'") == "1";
  }));
  const std::uint64_t before = beats();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(wait_until_true([&] { return beats() != before; }));
  EXPECT_LT(std::chrono::steady_clock::now() - began, PostgresOptions{}.lease * 4 / 5);
  vacuum.run("commit");
  const EngineDone put_done = done.get();
  EXPECT_TRUE(put_done.has_value()) << put_done.error().what;
}

}  // namespace
}  // namespace locksley::daemon
