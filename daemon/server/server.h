// The client port.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"
#include "config/reload.h"
#include "core/lane/lane.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/net/bound_port.h"
#include "daemon/base/net/listener.h"
#include "daemon/server/state/config_changes.h"
#include "daemon/server/state/server_state.h"
#include "daemon/tls/context.h"

namespace locksley::daemon {

class CommandExecutor;
class Session;
class Sessions;

// The client port: its listening socket, its connections, and the state that they share with the
// HTTP API.
//
// A member of ServingParts, and of Standby, where it serves without batches. All Parts outlive it.
// The io_context no longer runs when it is destroyed, and all connections have gone by then
// (close()). Everything runs on the one thread that runs the io_context, the I/O thread, and needs
// no locks; news from the workers comes through ChangeQueue. Nothing blocks. Only listen() fails.
class Server {
 public:
  using Parts = ServerState::Parts;

  Server(Parts parts, config::Config config);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves clients from now on. The error names the address and what the system said.
  std::expected<asio::ip::tcp::endpoint, std::string> listen() LOCKSLEY_REQUIRES(kIoThread);
  // The same on a port that is bound already.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(BoundPort port) LOCKSLEY_REQUIRES(kIoThread);
  // New connections speak TLS from now on, with this certificate; null: plain. Existing ones stay
  // as they are, except those that a certificate opened whose authority is no longer in client_ca:
  // they are dropped (Sessions::use_tls()).
  void use_tls(std::shared_ptr<const TlsContext> context) LOCKSLEY_REQUIRES(kIoThread);
  const TlsContext* tls() const LOCKSLEY_REQUIRES(kIoThread);
  // Puts a configuration in force. Connections of users that it does not have are closed. Returns
  // the previous one, since destroying it may take long. `parts`: what differs between the two.
  config::Config reconfigure(config::Config config, config::ChangedParts parts) LOCKSLEY_REQUIRES(kIoThread);
  // Called after each outcome of the store: Store::written() may be higher. Once, before listen().
  void on_outcome(std::function<void()> listener) { on_outcome_ = std::move(listener); }
  // Sets the functions that CONFIG SET and CONFIG RELOAD call. Before listen().
  void on_config(ConfigChanges changes) LOCKSLEY_REQUIRES(kIoThread) {
    state_.set_config_changes(std::move(changes));
  }
  // Adds a handler's counters, or a lane, which outlives this. Known ones are left alone.
  void add_handler(const std::string& name) { state_.stats().add_handler(name); }
  void add_lane(Lane& lane) LOCKSLEY_REQUIRES(kIoThread) { state_.add_lane(lane); }
  // Refuses new work from now on; calls `on_idle` once nothing that was accepted is left to do.
  void drain(std::function<void()> on_idle) LOCKSLEY_REQUIRES(kIoThread) {
    state_.batches().drain(std::move(on_idle));
  }
  // Accepts no more connections, gives the existing ones kCloseGrace to take their output, and
  // calls `on_closed` when none is left.
  void close(std::function<void()> on_closed) LOCKSLEY_REQUIRES(kIoThread);
  // The same at once: connections execute no more commands, and unsent replies are lost.
  void cut(std::string_view reason, std::function<void()> on_closed) LOCKSLEY_REQUIRES(kIoThread);
  static constexpr auto kCloseGrace = std::chrono::seconds(1);  // guess

  ServerState& state() { return state_; }
  const config::Config& config() const LOCKSLEY_REQUIRES(kIoThread) { return state_.config(); }
  Batches& batches() { return state_.batches(); }
  const std::vector<Lane*>& lanes() const LOCKSLEY_REQUIRES(kIoThread) { return state_.lanes(); }
  std::uint16_t port() const LOCKSLEY_REQUIRES(kIoThread) { return state_.port(); }
  // For tests. The connection with this id; null if there is none.
  Session* session(std::uint64_t id) const LOCKSLEY_REQUIRES(kIoThread);

 private:
  ServerState state_;
  const std::unique_ptr<const CommandExecutor> executor_;
  const std::unique_ptr<Sessions> sessions_;
  Listener listener_;
  Timer close_timer_;
  std::function<void()> on_outcome_ = [] {};
};

}  // namespace locksley::daemon
