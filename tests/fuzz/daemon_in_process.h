// A daemon in the process of a fuzz target: server, pool and built-in handlers, and a store in
// memory if wanted.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/auth/authenticator.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/server.h"
#include "daemon/store/store.h"
#include "proto/limits.h"

namespace rocksdb {
class Env;
}

namespace locksley::fuzz {

// What main() builds, without what is around it. Its I/O thread is the caller's, which has it work
// by run_for(): so what a client sends and what the daemon does come in an order that the target
// decides. Pool and store have threads. Loopback, any free port.
class DaemonInProcess {
 public:
  // `disk`: where the store is, which outlives it; null: there is no store.
  DaemonInProcess(config::Config config, rocksdb::Env* disk);
  // It must have been stopped.
  ~DaemonInProcess();
  DaemonInProcess(const DaemonInProcess&) = delete;
  DaemonInProcess& operator=(const DaemonInProcess&) = delete;

  daemon::Server& server() { return *server_; }
  std::uint16_t port() const {
    const ThreadRoleScope io_thread(daemon::kIoThread);
    return server_->port();
  }
  proto::Limits reader_limits() const {
    const ThreadRoleScope io_thread(daemon::kIoThread);
    return server_->state().reader_limits();
  }

  // Does what there is to do; if that is nothing, waits so long for something. 0: does not wait.
  void run_for(std::chrono::milliseconds most);
  // Runs until it is so, for 20 s at most: then the claim does not hold.
  void run_until(const std::function<bool()>& is_so, const char* claim);

  // As on SIGTERM: new work is refused; `on_idle` is called once nothing that was accepted is left
  // to do.
  void drain(std::function<void()> on_idle);
  // As at the daemon's end. All batches but those in the store must be over.
  void stop();

 private:
  const std::vector<std::unique_ptr<Handler>> builtins_;
  Lane lane_;
  Pool pool_;
  daemon::HandlerDirectory handlers_;
  std::unique_ptr<daemon::Store> store_;
  daemon::Tenants tenants_;
  asio::io_context io_{1};
  daemon::Authenticator authenticator_{io_.get_executor()};
  std::unique_ptr<daemon::Server> server_;
};

// A disk in memory.
std::unique_ptr<rocksdb::Env> make_disk();

}  // namespace locksley::fuzz
