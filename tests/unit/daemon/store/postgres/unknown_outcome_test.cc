// Commits whose connection is lost: what was written is found out before any answer.
#include <gmock/gmock.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "daemon/store/engine/key.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_proxy.h"
#include "tests/support/seed.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ContainsRegex;
using Fault = testing::PostgresProxy::Fault;
using Sync = Engine::Sync;

class UnknownOutcomeTest : public ::testing::Test {
 protected:
  // An engine whose connections go through the proxy.
  void open() {
    PostgresOptions options = disk.options();
    options.url =
        "postgresql://locksley@/postgres?host=" + proxy.folder() + "&options=-csearch_path%3D" + disk.name();
    options.patience = std::chrono::seconds(20);
    adjust(options);
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, log});
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    engine = std::move(*opened);
    disk.install_faults();
  }
  EngineDone put(std::string_view key) LOCKSLEY_REQUIRES(kStoreWriter) {
    const auto group = engine->new_group();
    group->put(Table::kIndex, key, "value");
    return engine->commit(*group, Sync::kSynced);
  }
  bool has(std::string_view key) {
    const EngineReading reading(*engine);
    std::string value;
    return reading.get(Table::kIndex, key, value).value_or(false);
  }

  testing::PostgresDisk disk;
  testing::PostgresProxy proxy{testing::postgres_server().socket()};
  std::function<void(PostgresOptions&)> adjust = [](PostgresOptions&) {};
  std::ostringstream logged;
  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged));
  std::unique_ptr<Engine> engine;
};

TEST_F(UnknownOutcomeTest, ACommitThatDidNotArriveIsWrittenAgain) {
  const ThreadRoleScope role(kStoreWriter);
  open();
  const std::uint64_t commits = disk.syncs();
  proxy.set_fault(Fault::kCutBefore);
  ASSERT_TRUE(put("a").has_value());
  EXPECT_TRUE(proxy.is_spent());
  EXPECT_EQ(disk.syncs(), commits + 1) << "the first COMMIT did not arrive";
  EXPECT_TRUE(has("a"));
}

TEST_F(UnknownOutcomeTest, ACommitWhoseReplyWasLostIsNotWrittenAgain) {
  const ThreadRoleScope role(kStoreWriter);
  open();
  const std::uint64_t commits = disk.syncs();
  proxy.set_fault(Fault::kCutAfter);
  ASSERT_TRUE(put("a").has_value());
  EXPECT_TRUE(proxy.is_spent());
  EXPECT_EQ(disk.syncs(), commits + 1) << "the only COMMIT is that whose reply was lost";
  EXPECT_TRUE(has("a"));
}

TEST_F(UnknownOutcomeTest, ACommitThatArrivesLateIsWaitedFor) {
  const ThreadRoleScope role(kStoreWriter);
  open();
  const std::uint64_t commits = disk.syncs();
  proxy.set_fault(Fault::kDeliverLate);
  ASSERT_TRUE(put("a").has_value());
  EXPECT_EQ(disk.syncs(), commits + 1);
  EXPECT_TRUE(has("a"));
}

TEST_F(UnknownOutcomeTest, WhatWentAheadMayBeGoneSoTheGroupIsNotWrittenAgain) {
  const ThreadRoleScope role(kStoreWriter);
  open();
  const auto ahead = engine->new_group();
  ahead->put(Table::kPayloads, Key().append(1).append(0), std::string(20'000, 'x'));
  ASSERT_TRUE(engine->write_ahead(*ahead).has_value());
  proxy.set_fault(Fault::kCutBefore);
  const auto failed = put("a");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().kind, EngineError::Kind::kFailed);
  ASSERT_TRUE(engine->reopen().has_value());
  EXPECT_FALSE(has("a"));
  ASSERT_TRUE(put("b").has_value());
}

TEST_F(UnknownOutcomeTest, AServerThatWasKilledBetweenGroupsIsFoundAgain) {
  const ThreadRoleScope role(kStoreWriter);
  open();
  ASSERT_TRUE(put("a").has_value());
  disk.cut_power();
  EngineDone done;
  std::thread writer([&] {
    const ThreadRoleScope of_writer(kStoreWriter);
    done = put("b");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  disk.lose_power();
  writer.join();
  ASSERT_TRUE(done.has_value()) << done.error().what;
  EXPECT_TRUE(has("a"));
  EXPECT_TRUE(has("b"));
}

TEST_F(UnknownOutcomeTest, AServerThatStaysAwayIsAFailureUntilItIsBack) {
  const ThreadRoleScope role(kStoreWriter);
  adjust = [](PostgresOptions& options) { options.patience = std::chrono::milliseconds(200); };
  open();
  ASSERT_TRUE(put("a").has_value());
  disk.cut_power();
  const auto failed = put("b");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().kind, EngineError::Kind::kFailed);
  EXPECT_FALSE(EngineReading(*engine, ReadingWait::kNot).is_valid()) << "nothing is answered meanwhile";
  EXPECT_FALSE(engine->reopen().has_value());
  disk.lose_power();
  ASSERT_TRUE(engine->reopen().has_value());
  EXPECT_TRUE(has("a"));
  ASSERT_TRUE(put("c").has_value());
}

// As after a server that was killed with groups that it had not synced, or a replica that lagged
// behind when it was promoted.
class LostGroupsTest : public UnknownOutcomeTest {
 protected:
  void open_and_lose_one_of_two_groups() LOCKSLEY_REQUIRES(kStoreWriter) {
    adjust = [this](PostgresOptions& options) { options.on_fenced = [this] { ++ends; }; };
    open();
    ASSERT_TRUE(put("a").has_value());
    ASSERT_TRUE(put("b").has_value());
    server.emplace(disk.url());
    server->run("update locksley_node set committed = 1");
    server->run("delete from locksley_name where name = 'b'");
  }
  void expect_end(const EngineDone& done) {
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, EngineError::Kind::kFenced);
    EXPECT_EQ(ends, 1);
    EXPECT_THAT(logged.str(),
                ContainsRegex("has lost groups that were acknowledged.*lost_groups.1.last_acknowledged.2"));
    EXPECT_EQ(server->value("select committed from locksley_node"), "1");
    EXPECT_EQ(server->value("select count(*) from locksley_name where name = 'c'"), "0");
  }

  std::optional<testing::TestConnection> server;
  std::atomic<int> ends{0};
};

TEST_F(LostGroupsTest, EndTheDaemonAtTheNextUnknownOutcome) {
  const ThreadRoleScope role(kStoreWriter);
  open_and_lose_one_of_two_groups();
  proxy.set_fault(Fault::kCutBefore);
  expect_end(put("c"));
  ASSERT_FALSE(put("d").has_value());
  const EngineDone opened = engine->reopen();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind, EngineError::Kind::kFenced);
}

TEST_F(LostGroupsTest, EndTheDaemonWhenItOpensTheDatabaseAgain) {
  const ThreadRoleScope role(kStoreWriter);
  open_and_lose_one_of_two_groups();
  expect_end(engine->reopen());
}

// A session of the server that is held up, by a debugger for example, has a whole group before it
// when its daemon has given it up, and goes on later.
TEST_F(UnknownOutcomeTest, AGroupThatASessionHasBeforeItHasNoEffectOnceItWasWrittenAgain) {
  const ThreadRoleScope role(kStoreWriter);
  adjust = [](PostgresOptions& options) { options.reply_time = std::chrono::seconds(2); };
  open();
  ASSERT_TRUE(put("a").has_value());
  testing::TestConnection server(disk.url());
  const auto session = server.run(
      "select pid from pg_stat_activity where application_name like 'locksley %/1' and query = 'commit'");
  ASSERT_EQ(session.size(), 1U);
  const std::string& pid = session[0][0];
  ASSERT_EQ(::kill(std::stoi(pid), SIGSTOP), 0);
  const auto put_value = [&](std::string_view value) {
    kStoreWriter.assert_held();
    const auto group = engine->new_group();
    group->put(Table::kIndex, "a", value);
    return engine->commit(*group, Sync::kSynced).has_value();
  };
  EXPECT_TRUE(put_value("first"));
  EXPECT_TRUE(put_value("second"));
  ASSERT_EQ(::kill(std::stoi(pid), SIGCONT), 0);
  EXPECT_TRUE(testing::wait_until_true(
      [&] { return server.run("select from pg_stat_activity where pid = " + pid).empty(); }));
  EXPECT_EQ(server.value("select convert_from(value, 'utf8') from locksley_name where name = 'a'"), "second");
  EXPECT_EQ(server.value("select committed from locksley_node"), "3");
}

// A session of a reading that the server holds up: the reading waits for its second page, and the
// writer for the reading.
TEST_F(UnknownOutcomeTest, AReadingThatWaitsForTheServerDoesNotHoldUpTheWriter) {
  const ThreadRoleScope role(kStoreWriter);
  open();
  const auto rows = engine->new_group();
  for (std::uint64_t part = 0; part < 8; ++part)
    rows->put(Table::kResults, Key().append(1).append(part), std::string(20'000, 'x'));
  ASSERT_TRUE(engine->commit(*rows, Sync::kSynced).has_value());
  testing::TestConnection server(disk.url());
  std::promise<void> is_stopped;
  auto read = std::async(std::launch::async, [&, stopped = is_stopped.get_future()]() mutable {
    const EngineReading reading(*engine);
    const std::string low(Key().append(1).append(0));
    const std::string high(Key().append(2).append(0));
    const auto row = reading.scan({.table = Table::kResults, .low = low, .high = high});
    stopped.wait();
    while (row->is_valid()) row->next();
    return row->status().has_value();
  });
  std::vector<std::vector<std::string>> session;
  EXPECT_TRUE(testing::wait_until_true([&] {
    session = server.run(
        "select pid from pg_stat_activity where application_name like 'locksley %/1 reads' and query like "
        "'fetch %' and state = 'idle in transaction'");
    return session.size() == 1;
  }));
  const pid_t pid = session.empty() ? 0 : std::stoi(session[0][0]);
  ASSERT_NE(pid, 0);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  is_stopped.set_value();
  proxy.set_fault(Fault::kCutBefore);
  auto done = std::async(std::launch::async, [&] {
    const ThreadRoleScope of_writer(kStoreWriter);
    return put("a").has_value();
  });
  EXPECT_EQ(done.wait_for(std::chrono::seconds(15)), std::future_status::ready);
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  EXPECT_TRUE(done.get());
  EXPECT_FALSE(read.get()) << "the reading was broken off";
}

// The server says that the commit is done, though the standby has not confirmed it.
class CancelledWaitTest : public UnknownOutcomeTest, public ::testing::WithParamInterface<std::string> {};

// The second: a role whose sessions are told of errors alone.
INSTANTIATE_TEST_SUITE_P(Settings, CancelledWaitTest,
                         ::testing::Values("", "%20-cclient_min_messages%3Derror"));

TEST_P(CancelledWaitTest, IsNoAcknowledgement) {
  const ThreadRoleScope role(kStoreWriter);
  adjust = [](PostgresOptions& options) {
    options.url += GetParam();
    options.patience = std::chrono::milliseconds(300);
    options.reply_time = std::chrono::seconds(30);  // the cancelled wait ends first
  };
  open();
  testing::TestConnection server(testing::postgres_server().url());
  const auto set_standby = [&](const std::string& name) {
    server.run("alter system set synchronous_standby_names = '" + name + "'");
    server.run("select pg_reload_conf()");
  };
  set_standby("nowhere");
  std::jthread canceller([](const std::stop_token& stop) {
    testing::TestConnection other(testing::postgres_server().url());
    while (!stop.stop_requested()) {
      other.run("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  // The setting reaches the session a moment later.
  EXPECT_TRUE(testing::wait_until_true([&] {
    kStoreWriter.assume_held();
    return !put("a").has_value();
  }));
  canceller.request_stop();
  canceller.join();
  set_standby("");
  // Of the commit. The attempts to find out what became of it are cancelled, too, or run out of
  // time: the error is that of the last.
  EXPECT_THAT(logged.str(), ContainsRegex("the outcome of a commit is unknown.*synchronous replication"));
  EXPECT_TRUE(testing::wait_until_true([&] {
    kStoreWriter.assume_held();
    return engine->reopen().has_value();
  }));
}

TEST_F(UnknownOutcomeTest, NoAcknowledgedGroupIsLostWhateverBreaks) {
  const ThreadRoleScope role(kStoreWriter);
  open();
  auto random = testing::stress_random(3);
  std::vector<std::string> acknowledged;
  std::array<int, 4> happened{};
  for (int i = 0; i < 40; ++i) {
    const auto fault = static_cast<Fault>(random() % 4);
    proxy.set_fault(fault);
    const std::string key(Key('b').append(static_cast<std::uint64_t>(i)));
    const auto done = put(key);
    ASSERT_TRUE(done.has_value()) << done.error().what;
    ASSERT_TRUE(proxy.is_spent());
    ++happened[static_cast<std::size_t>(fault)];
    acknowledged.push_back(key);
  }
  EXPECT_THAT(happened, ::testing::Each(::testing::Gt(0)));
  EXPECT_EQ(disk.syncs(), acknowledged.size()) << "none was written twice";
  engine.reset();
  open();
  for (const std::string& key : acknowledged) EXPECT_TRUE(has(key));
}

}  // namespace
}  // namespace locksley::daemon
