// The port for remote workers, as the rest of the daemon sees it.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <thread>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/net/bound_port.h"
#include "daemon/server/state/server_state.h"
#include "daemon/store/store.h"
#include "daemon/worker_port/link_service.h"
#include "daemon/worker_port/login_desk.h"

namespace locksley::daemon {

// The port for remote workers, with its thread. It exists in each daemon, and is opened once a
// handler is `remote`.
//
//   WorkerPort port(…);  port.begin();  port.listen(…);  port.start();  …  port.drain();  …  port.stop();
//
// A member of ServingParts (daemon/parts.h), and of Standby::Desk; `state`, the store and the lanes
// outlive it. The I/O thread. Only stop() blocks, until the link thread has ended its present step.
// Only listen() fails.
class WorkerPort {
 public:
  // `store`: null: all is in memory only.
  WorkerPort(ServerState& state, Store* store) : state_(state), store_(store), desk_(state) {}
  ~WorkerPort();
  WorkerPort(const WorkerPort&) = delete;
  WorkerPort& operator=(const WorkerPort&) = delete;

  // Called after the batches of an earlier process are restored, and before all other functions.
  void begin() LOCKSLEY_REQUIRES(kIoThread);
  // `address`: where workers connect; the daemon sends it to them. The error names the port's
  // address and what the system said.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(BoundPort port, std::string address)
      LOCKSLEY_REQUIRES(kIoThread);
  // Whether listen() has succeeded; whether start() was called.
  bool is_open() const { return !address_.empty(); }
  bool is_started() const { return thread_.joinable(); }
  // As listen() was told; empty: it is not open.
  const std::string& address() const { return address_; }
  // Serves from now on. After listen(), once.
  void start() LOCKSLEY_REQUIRES(kIoThread);
  // The configuration has changed: users, handlers, limits; or certificates. Null: plain.
  void update(std::shared_ptr<const TlsContext> tls) LOCKSLEY_REQUIRES(kIoThread);
  void update() LOCKSLEY_REQUIRES(kIoThread) { update(tls_); }
  const TlsContext* tls() const { return tls_.get(); }
  // Store::written() may be higher than before.
  void store_advanced() LOCKSLEY_REQUIRES(kIoThread);
  // No more claims; asks workers to hand back what has not started. Call it just before stop():
  // while the daemon finishes its accepted jobs, workers must still be able to claim.
  void drain() LOCKSLEY_REQUIRES(kIoThread);
  // Closes all connections, and takes back what workers hold.
  void stop() LOCKSLEY_REQUIRES(kIoThread);

 private:
  // Makes the link thread the RemoteExecutors of the lanes whose handlers remote workers may run.
  void watch_lanes() LOCKSLEY_REQUIRES(kIoThread);
  LinkService::Questions questions();

  ServerState& state_;
  Store* const store_;
  LoginDesk desk_;
  std::shared_ptr<const TlsContext> tls_;
  std::string address_;                   // empty: it is not open
  std::unique_ptr<LinkService> service_;  // null before begin()
  std::thread thread_;
};

}  // namespace locksley::daemon
