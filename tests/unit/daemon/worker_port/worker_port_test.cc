// The port for workers with a server behind it: which batches RECLAIM finds, and that it reads none
// from the store.
#include "daemon/worker_port/worker_port.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

// The handler echo runs here and on workers, far only on workers.
class WorkerPortTest : public ServerFixture {
 protected:
  WorkerPortTest() {
    handlers_.add({.handler = echo_, .lane = lane_, .kind = HandlerKind::kBuiltin, .is_remote = true});
    handlers_.add({.handler = far_, .lane = far_lane_, .kind = HandlerKind::kRemote, .is_remote = true});
  }
  ~WorkerPortTest() override {
    if (port_for_workers_ != nullptr) {
      on_io_thread([&] {
        port_for_workers_.reset();
        return true;
      });
    }
    stop();
    far_lane_.detach_all();
    server_.reset();
  }

  // `before`: done before the port is there.
  void open(const std::function<void(config::Config&)>& change = {},
            const std::function<void()>& before = {}) {
    start(change);
    if (before) before();
    const auto endpoint = on_io_thread([&]() -> std::expected<asio::ip::tcp::endpoint, std::string> {
      kIoThread.assert_held();
      server_->state().add_lane(far_lane_);
      port_for_workers_ = std::make_unique<WorkerPort>(server_->state(), nullptr);
      port_for_workers_->begin();
      auto bound = BoundPort::bind("127.0.0.1", 0, "workers.listen");
      if (!bound) return std::unexpected(bound.error());
      auto listens = port_for_workers_->listen(*std::move(bound), "queue:7771");
      if (listens) port_for_workers_->start();
      return listens;
    });
    ASSERT_TRUE(endpoint) << endpoint.error();
    worker_port_ = endpoint->port();
  }
  static void join(Client& worker, const std::string& handler) {
    EXPECT_EQ(worker.ask("JOIN w SLOTS 1 HANDLERS " + handler), "*14");
    std::string line = worker.ask("PING");
    while (line != "+PONG" && !line.ends_with("<closed>")) line = worker.line();
  }
  // The batch has ended. Memory keeps its place only, as if the store had the rest. Returns its
  // number.
  std::uint64_t retire(const std::string& id) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      Registry& registry = server_->batches().registry();
      registry.load_with([this](std::uint64_t) -> Registry::Loaded {
        ++loads_;
        return std::unexpected("the test has no store");
      });
      BatchRecord& record = **registry.find(registry.tenants().of("default"), id);
      const std::uint64_t number = record.sequence;
      registry.retire(record);
      return number;
    });
  }

  Handler far_{"far", "", HandlerDirectory::run_elsewhere};
  Lane far_lane_{"far", FairRing::Options{.parallelism = 1}};
  std::unique_ptr<WorkerPort> port_for_workers_;
  std::uint16_t worker_port_ = 0;
  std::atomic<int> loads_{0};  // the I/O thread counts, the test reads
};

TEST_F(WorkerPortTest, ReclaimOfABatchThatIsOverLoadsNothing) {
  open();
  Client client(port_);
  EXPECT_EQ(client.ask("SUBMIT echo ID done JOBS x"), "$4");
  EXPECT_EQ(client.line(), "done");
  EXPECT_TRUE(client.ask("WAIT done").starts_with("*"));
  const std::uint64_t number = retire("done");
  Client worker(worker_port_);
  join(worker, "echo");
  EXPECT_EQ(worker.ask("RECLAIM " + std::to_string(number) + " 1 0 1"), "-LOST there is no such batch");
  EXPECT_EQ(loads_, 0);
}

TEST_F(WorkerPortTest, TheHoldAfterARestartEndsThoughNoWorkerComes) {
  const auto soon = [](config::Config& config) { config.workers.reclaim = std::chrono::milliseconds(50); };
  // A batch that is not over, as after a restart.
  open(soon, [this] {
    Client client(port_);
    EXPECT_EQ(client.ask("SUBMIT hold ID h JOBS x"), "$1");
  });
  Client client(port_);
  EXPECT_EQ(client.ask("RUN echo JOBS x"), "*1") << "in the daemon, since no worker is there";
}

TEST_F(WorkerPortTest, ReclaimFindsTheBatchOfARun) {
  open();
  Client client(port_);
  client.send("RUN far JOBS x\r\n");
  auto lost = std::make_unique<Client>(worker_port_);
  join(*lost, "far");
  ASSERT_EQ(lost->ask("CLAIM BLOCK 60000"), "*14");
  (void)lost->bulk();
  const std::string number = lost->line().substr(1);
  EXPECT_NE(number, "0");
  lost.reset();
  Client worker(worker_port_);
  join(worker, "far");
  // Until the link has seen that the first connection is gone.
  std::string reply = "-LOST none of these jobs is queued for this attempt";
  for (const Instant end = now() + std::chrono::minutes(1); reply.starts_with("-LOST none") && now() < end;)
    reply = worker.ask("RECLAIM " + number + " 1 0 1");
  ASSERT_EQ(reply, "*3");
  const std::string lease = worker.bulk();
  for (const char* const expected : {"*1", "*2", ":0", ":1", ":1"}) EXPECT_EQ(worker.line(), expected);
  EXPECT_EQ(worker.ask("SETTLE " + lease + " ok 0 out"), "*2");
  EXPECT_EQ(worker.line(), ":1");
  EXPECT_TRUE(client.line().starts_with("*")) << "the RUN has its results";
}

}  // namespace
}  // namespace locksley::daemon
