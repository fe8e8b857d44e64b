// A daemon stands by while another one is active, and takes over from it.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "daemon/store/cluster_board.h"
#include "daemon/store/engine/key.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_proxy.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::HasSubstr;
using Fault = testing::PostgresProxy::Fault;
using Opened = std::expected<std::unique_ptr<Engine>, StoreRefusal>;
using Role = ClusterBoard::Role;
using State = ClusterNode::State;
using testing::wait_until_true;

// A daemon that opens the engine on a thread of its own, and stands by until it may.
class StandbyDaemon {
 public:
  explicit StandbyDaemon(PostgresOptions options) {
    options.cluster = board;
    options.stand_by = [this](std::chrono::milliseconds time) {
      ++waits;
      // Looks often, also with a long lease.
      std::this_thread::sleep_for(std::min(time, std::chrono::milliseconds(20)));
      return !is_to_end;
    };
    thread_ = std::thread([this, options = std::move(options)] {
      opened_ = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
      is_open = opened_.has_value();
      has_ended = true;
    });
  }
  ~StandbyDaemon() {
    is_to_end = true;
    if (thread_.joinable()) thread_.join();
  }
  // What opening came to.
  Opened& join() {
    thread_.join();
    return opened_;
  }
  std::optional<State> state_of(std::int32_t node) const {
    const ClusterBoard::View view = board->get();
    for (const ClusterNode& each : view->nodes) {
      if (each.number == node) return each.state;
    }
    return std::nullopt;
  }

  const std::shared_ptr<ClusterBoard> board = std::make_shared<ClusterBoard>();
  std::atomic<int> waits{0};
  std::atomic<bool> is_to_end{false};
  std::atomic<bool> is_open{false};
  std::atomic<bool> has_ended{false};

 private:
  Opened opened_ = std::unexpected(StoreRefusal{});
  std::thread thread_;
};

class StandingByTest : public ::testing::Test {
 protected:
  PostgresOptions through_proxy() {
    PostgresOptions options = disk.options();
    options.url =
        "postgresql://locksley@/postgres?host=" + proxy.folder() + "&options=-csearch_path%3D" + disk.name();
    return options;
  }
  // With a lease so long that no daemon is silent for it, however slow the test is: such a daemon
  // takes over only from one that has ended.
  static PostgresOptions patient(PostgresOptions options) {
    options.lease = std::chrono::hours(1);
    return options;
  }
  std::unique_ptr<Engine> open_active(PostgresOptions options) {
    options.cluster = active_board;
    options.wire = "active:7770";
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  std::string value(const std::string& sql) { return testing::TestConnection(disk.url()).value(sql); }
  bool active_knows_of_a_standby() const {
    return std::ranges::any_of(active_board->get()->nodes,
                               [](const ClusterNode& node) { return node.state == State::kStandby; });
  }

  testing::PostgresDisk disk;
  testing::PostgresProxy proxy{testing::postgres_server().socket()};
  const std::shared_ptr<ClusterBoard> active_board = std::make_shared<ClusterBoard>();
};

TEST_F(StandingByTest, ADaemonThatIsAloneIsActiveAtOnce) {
  StandbyDaemon daemon(patient(disk.options()));
  ASSERT_TRUE(daemon.join().has_value());
  EXPECT_EQ(daemon.waits, 0);
  EXPECT_EQ(daemon.board->role(), Role::kLoading);
  EXPECT_EQ(daemon.board->adoptions(), 1U);
  EXPECT_EQ(daemon.board->fencings(), 0U);
  EXPECT_EQ(value("select count(*) from locksley_shard join locksley_node on owner = node where alive"),
            "64");
}

TEST_F(StandingByTest, BothSeeEachOther) {
  const auto active = open_active(disk.options());
  StandbyDaemon standby(patient(disk.options()));
  EXPECT_TRUE(wait_until_true([&] {
    const ClusterBoard::View view = standby.board->get();
    return view->active() != nullptr && view->active()->wire == "active:7770" && standby.waits > 3;
  }));
  EXPECT_EQ(standby.board->role(), Role::kStandby);
  EXPECT_TRUE(wait_until_true([&] { return standby.state_of(2) == State::kStandby; }));
  EXPECT_TRUE(wait_until_true([&] {
    const ClusterBoard::View view = active_board->get();
    return view->nodes.size() == 2 && view->nodes[0].state == State::kActive && view->nodes[0].shards == 64 &&
           view->nodes[1].state == State::kStandby && view->nodes[1].shards == 0 && view->unowned_shards == 0;
  }));
  EXPECT_FALSE(standby.has_ended);
}

TEST_F(StandingByTest, ItTakesOverOnceTheActiveOneHasEnded) {
  auto active = open_active(patient(disk.options()));
  StandbyDaemon standby(patient(disk.options()));
  ASSERT_TRUE(wait_until_true([&] { return standby.waits > 3; }));
  EXPECT_FALSE(standby.is_open);
  active.reset();
  ASSERT_TRUE(standby.join().has_value()) << "without waiting for an hour, which is the lease";
  EXPECT_EQ(standby.board->role(), Role::kLoading);
  EXPECT_EQ(standby.board->adoptions(), 1U);
  EXPECT_EQ(standby.board->fencings(), 0U);
  EXPECT_EQ(value("select node from locksley_node where alive"), "2");
}

TEST_F(StandingByTest, ItTakesOverFromOneThatIsSilent) {
  const auto active = open_active(through_proxy());
  StandbyDaemon standby(disk.options());
  // It may have been silent already, if the test was held up.
  ASSERT_TRUE(wait_until_true([&] { return standby.waits > 3 || standby.has_ended; }));
  proxy.freeze();
  ASSERT_TRUE(standby.join().has_value());
  EXPECT_EQ(standby.board->fencings(), 1U);
  EXPECT_TRUE(wait_until_true([&] { return standby.state_of(1) == State::kGone; }));
  EXPECT_EQ(standby.state_of(2), State::kActive);
  proxy.thaw();
  const ThreadRoleScope role(kStoreWriter);
  const auto group = active->new_group();
  group->put(Table::kIndex, "a", "");
  const auto done = active->commit(*group, Engine::Sync::kSynced);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().kind, EngineError::Kind::kFenced);
}

TEST_F(StandingByTest, ItFollowsTheIndexAndServesTheFirstReadingFromItsCopy) {
  auto active = open_active(disk.options());
  const ThreadRoleScope role(kStoreWriter);
  const auto put = [](Engine& engine, std::uint64_t batch) {
    kStoreWriter.assert_held();
    const auto group = engine.new_group();
    group->put(Table::kIndex, Key('b').append(batch), "written");
    return engine.commit(*group, Engine::Sync::kSynced).has_value();
  };
  const auto values = [](Engine& engine) {
    std::string read;
    const EngineReading reading(engine);
    for (const auto row = reading.scan_batches(std::array{'b', 'e'}); row->is_valid(); row->next())
      read += std::string(row->value()) + " ";
    return read;
  };
  ASSERT_TRUE(put(*active, 1));
  PostgresOptions options = patient(disk.options());
  options.followed_kinds = "be";
  StandbyDaemon standby(options);
  ASSERT_TRUE(
      wait_until_true([&] { return standby.board->followed() == 1U && active_knows_of_a_standby(); }));
  ASSERT_TRUE(put(*active, 2));
  // Behind the back of the daemons: who reads the table sees it, who has a copy does not.
  testing::TestConnection(disk.url()).run("update locksley_index set value = 'forged' where batch = 1");
  active.reset();
  Engine& engine = **standby.join();
  EXPECT_FALSE(standby.board->followed());
  EXPECT_EQ(values(engine), "written written ");
  EXPECT_EQ(values(engine), "forged written ") << "the second reading";
}

TEST_F(StandingByTest, TheCopyIsNotUsedOnceTheIndexHasChanged) {
  auto active = open_active(disk.options());
  PostgresOptions options = patient(disk.options());
  options.followed_kinds = "b";
  StandbyDaemon standby(options);
  ASSERT_TRUE(wait_until_true([&] { return standby.board->followed() == 0U; }));
  active.reset();
  Engine& engine = **standby.join();
  const ThreadRoleScope role(kStoreWriter);
  const auto group = engine.new_group();
  group->put(Table::kIndex, Key('b').append(1), "");
  ASSERT_TRUE(engine.commit(*group, Engine::Sync::kSynced));
  const EngineReading reading(engine);
  EXPECT_TRUE(reading.scan_batches(std::array{'b'})->is_valid());
}

TEST_F(StandingByTest, ItOutlivesTheDatabase) {
  auto active = open_active(disk.options());
  StandbyDaemon standby(patient(disk.options()));
  ASSERT_TRUE(wait_until_true([&] { return standby.waits > 3; }));
  disk.cut_power();
  EXPECT_TRUE(wait_until_true([&] { return standby.board->get()->trouble.has_value(); }));
  disk.lose_power();
  EXPECT_TRUE(wait_until_true([&] { return !standby.board->get()->trouble.has_value(); }));
  EXPECT_EQ(standby.board->role(), Role::kStandby);
  EXPECT_EQ(value("select count(*) from locksley_node"), "2") << "it has kept its row";
  {
    const ThreadRoleScope role(kStoreWriter);
    ASSERT_TRUE(wait_until_true([&] {
      kStoreWriter.assert_held();
      return active->reopen().has_value();
    }));
  }
  active.reset();
  EXPECT_TRUE(standby.join().has_value());
}

TEST_F(StandingByTest, OfTwoThatStandByOneTakesOver) {
  auto active = open_active(patient(disk.options()));
  StandbyDaemon one(patient(disk.options()));
  StandbyDaemon other(patient(disk.options()));
  ASSERT_TRUE(wait_until_true([&] { return one.waits > 3 && other.waits > 3; }));
  active.reset();
  ASSERT_TRUE(wait_until_true([&] { return one.is_open || other.is_open; }));
  StandbyDaemon& second = one.is_open ? other : one;
  const int waits = second.waits;
  ASSERT_TRUE(wait_until_true([&] { return second.waits > waits + 3; }));
  EXPECT_FALSE(second.has_ended);
  EXPECT_EQ(value("select count(*) from locksley_node where alive"), "1");
}

// A daemon that has taken over says at once that it lives, though it takes 3 s to find out that a
// server is silent.
TEST_F(StandingByTest, OneTakesOverBesideAServerOfTheUrlThatIsSilent) {
  testing::PostgresProxy silent{testing::postgres_server().socket()};
  silent.freeze();
  PostgresOptions of_active = through_proxy();
  of_active.lease = std::chrono::milliseconds(1500);
  PostgresOptions options = of_active;
  options.url = "postgresql://locksley@/postgres?host=" + silent.folder() + "," +
                testing::postgres_server().folder().string() + "&options=-csearch_path%3D" + disk.name();
  const auto active = open_active(of_active);
  StandbyDaemon one(options);
  StandbyDaemon other(options);
  // The active one may have been silent already, if the test was held up.
  const auto is_ready = [](const StandbyDaemon& daemon) { return daemon.waits > 3 || daemon.has_ended; };
  ASSERT_TRUE(wait_until_true([&] { return is_ready(one) && is_ready(other); }));
  proxy.freeze();
  ASSERT_TRUE(wait_until_true([&] { return one.is_open || other.is_open; }));
  StandbyDaemon& second = one.is_open ? other : one;
  const int waits = second.waits;
  // Of 20 ms and more: two leases.
  ASSERT_TRUE(wait_until_true([&] { return second.has_ended || second.waits > waits + 150; }));
  EXPECT_FALSE(second.has_ended);
  EXPECT_EQ(one.board->fencings() + other.board->fencings(), 1U);
}

TEST_F(StandingByTest, ADaemonWhoseRowWasForgottenGetsAnother) {
  const auto active = open_active(disk.options());
  StandbyDaemon standby(patient(disk.options()));
  ASSERT_TRUE(wait_until_true([&] { return standby.waits > 0; }));
  testing::TestConnection(disk.url()).run("delete from locksley_node where not alive");
  EXPECT_TRUE(wait_until_true([&] { return value("select max(node) from locksley_node") == "3"; }));
  EXPECT_FALSE(standby.has_ended);
}

TEST_F(StandingByTest, OneThatIsToldToEndLeavesNoRow) {
  const auto active = open_active(disk.options());
  StandbyDaemon standby(patient(disk.options()));
  ASSERT_TRUE(wait_until_true([&] { return standby.waits > 0; }));
  EXPECT_EQ(value("select count(*) from locksley_node"), "2");
  standby.is_to_end = true;
  const Opened& opened = standby.join();
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().what, HasSubstr("told to end"));
  EXPECT_EQ(value("select count(*) from locksley_node"), "1");
}

TEST_F(StandingByTest, TheActiveOneForgetsAllButTheNewestThatHaveGone) {
  ASSERT_NE(open_active(disk.options()), nullptr);
  testing::TestConnection(disk.url())
      .run(
          "insert into locksley_node (alive, beat, committed) select false, 7, 7 from generate_series(1, "
          "30)");
  const auto active = open_active(patient(disk.options()));
  EXPECT_TRUE(wait_until_true([&] { return value("select count(*) from locksley_node") == "17"; }))
      << "16 and its own, without waiting for a sixth of the lease";
  EXPECT_EQ(value("select min(node) from locksley_node"), "16");
}

}  // namespace
}  // namespace locksley::daemon
