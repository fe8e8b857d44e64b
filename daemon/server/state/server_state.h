// The state that the connections, the commands and the HTTP API share.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/reload.h"
#include "core/lane/job_log.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/turns.h"
#include "daemon/base/time.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/batches/batches.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/state/audit.h"
#include "daemon/server/state/config_changes.h"
#include "daemon/server/state/held_replies.h"
#include "daemon/server/state/warnings.h"
#include "daemon/store/cluster_board.h"
#include "daemon/tls/handshake_queue.h"
#include "daemon/workers/machines_view.h"
#include "proto/limits.h"

namespace locksley::daemon {

class Authenticator;
class NetworkThreads;

// The state that the connections, the commands and the HTTP API share: the configuration in force,
// users, handlers, lanes, batches, counters, and the replies that wait for the store. It knows no
// connection.
//
// Owned by the Server, which lives as long as the daemon serves; the connections and the HTTP API
// borrow it. The I/O thread only. Nothing blocks. The constructor cannot fail.
class ServerState {
 public:
  // All parts outlive the ServerState.
  struct Parts {
    asio::io_context& io;
    // Outlives `io`: functions that wait there may hold batches, whose results are charged.
    Tenants& tenants;
    HandlerDirectory& handlers;
    std::vector<Lane*> lanes;  // the pool's first
    Pool& pool;
    Store* store;  // null: all is in memory only
    Authenticator& authenticator;
    std::shared_ptr<spdlog::logger> log;
    std::string version;                    // of the daemon
    proto::BlockPool* blocks = nullptr;     // for what clients send; null: the heap
    const ClusterBoard* cluster = nullptr;  // null: nothing is known of other daemons, and this one is active
    NetworkThreads* network = nullptr;      // null: the I/O thread moves the bytes of all connections itself
  };

  ServerState(Parts parts, config::Config config);
  ~ServerState();
  ServerState(const ServerState&) = delete;
  ServerState& operator=(const ServerState&) = delete;

  IoExecutor executor() const { return parts_.io.get_executor(); }
  asio::io_context& io() const { return parts_.io; }
  const config::Config& config() const LOCKSLEY_REQUIRES(kIoThread) { return config_; }
  ServerStats& stats() { return stats_; }
  const ServerStats& stats() const { return stats_; }
  Batches& batches() { return batches_; }
  const Batches& batches() const { return batches_; }
  // Null: all is in memory only.
  Store* store() const { return parts_.store; }
  // Null: as Parts::cluster.
  const ClusterBoard* cluster() const { return parts_.cluster; }
  ClusterBoard::Role role() const {
    return parts_.cluster == nullptr ? ClusterBoard::Role::kActive : parts_.cluster->role();
  }
  const Users& users() const LOCKSLEY_REQUIRES(kIoThread) { return users_; }
  Authenticator& authenticator() const { return parts_.authenticator; }
  const HandlerDirectory& handlers() const { return parts_.handlers; }
  const std::vector<Lane*>& lanes() const LOCKSLEY_REQUIRES(kIoThread) { return lanes_; }
  Pool& pool() const { return parts_.pool; }
  spdlog::logger& log() const { return *parts_.log; }
  const std::shared_ptr<spdlog::logger>& shared_log() const { return parts_.log; }
  Instant started_at() const { return started_at_; }
  const std::string& version() const { return parts_.version; }
  HandshakeQueue& handshakes() LOCKSLEY_REQUIRES(kIoThread) { return handshakes_; }
  // Null: the heap.
  proto::BlockPool* blocks() const { return parts_.blocks; }
  HeldReplies& held_replies() LOCKSLEY_REQUIRES(kIoThread) { return held_replies_; }
  // Long work of connections and batches.
  Slices& slices() LOCKSLEY_REQUIRES(kIoThread) { return slices_; }
  // The turns of connections.
  Turns& turns() LOCKSLEY_REQUIRES(kIoThread) { return turns_; }
  Warnings& warnings() LOCKSLEY_REQUIRES(kIoThread) { return warnings_; }
  Audit& audit() LOCKSLEY_REQUIRES(kIoThread) { return audit_; }
  // Remote workers, as they were a moment ago. The WorkerPort keeps it up to date.
  MachinesBoard& machines() { return machines_; }
  const MachinesBoard& machines() const { return machines_; }

  // The bytes in memory that running jobs have written to standard error: at most
  // limits.max_log_bytes.
  std::uint64_t log_bytes() const { return log_budget_->bytes(); }

  // The port that clients connect to; 0 before Server::listen().
  std::uint16_t port() const LOCKSLEY_REQUIRES(kIoThread) { return port_; }
  void set_port(std::uint16_t port) LOCKSLEY_REQUIRES(kIoThread) { port_ = port; }

  // The functions that CONFIG SET and CONFIG RELOAD call. Set once, before the first client.
  const ConfigChanges& config_changes() const LOCKSLEY_REQUIRES(kIoThread) { return config_changes_; }
  void set_config_changes(ConfigChanges changes) LOCKSLEY_REQUIRES(kIoThread) {
    config_changes_ = std::move(changes);
  }

  // Null: as Parts::network.
  NetworkThreads* network() const { return parts_.network; }

  // The limits of a connection's reader once its peer has logged in.
  proto::Limits reader_limits() const LOCKSLEY_REQUIRES(kIoThread);
  // Calls `done` once all writes up to this ticket are on the disk, with an empty text, or were
  // refused, with the text of the error reply; at once if that is known. Never, if the daemon ends
  // before.
  using Stored = std::function<void(std::string error)>;
  void when_stored(Ticket ticket, Stored done) LOCKSLEY_REQUIRES(kIoThread);
  // Whether a client waits for a batch or for the store.
  bool has_waiting_clients() const LOCKSLEY_REQUIRES(kIoThread) {
    return stats_.blocked.get() != 0 || !held_replies_.empty();
  }
  // Since the daemon's start.
  std::uint64_t batches_accepted() const;

  // Puts a configuration in force, for all but the connections, which the Server informs. Returns
  // the previous one, since destroying it may take long. `parts`: what differs from config().
  config::Config reconfigure(config::Config config, config::ChangedParts parts) LOCKSLEY_REQUIRES(kIoThread);
  // Adds a lane, which outlives this object; no effect if it is known already.
  void add_lane(Lane& lane) LOCKSLEY_REQUIRES(kIoThread);
  // The settings of this customer have changed.
  void tell_lanes(const Tenant& user, std::string_view customer) LOCKSLEY_REQUIRES(kIoThread);

 private:
  void update_password_hashes() LOCKSLEY_REQUIRES(kIoThread);
  // Charges the logs of the lane's jobs to the budget, and has clients woken that wait for them.
  void show_logs(Lane& lane) LOCKSLEY_REQUIRES(kIoThread);
  // Prepares a lane without batches: the limits of users, the source of customers' limits, and
  // logs.
  void set_up(Lane& lane) LOCKSLEY_REQUIRES(kIoThread);
  // The defaults of customers of these users have changed: informs the lanes, in slices.
  void tell_lanes(std::vector<const Tenant*> users) LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  std::vector<Lane*> lanes_ LOCKSLEY_GUARDED_BY(kIoThread);
  config::Config config_ LOCKSLEY_GUARDED_BY(kIoThread);
  const Instant started_at_ = now();
  std::uint16_t port_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;
  ServerStats stats_;
  Slices slices_ LOCKSLEY_GUARDED_BY(kIoThread);
  Turns turns_ LOCKSLEY_GUARDED_BY(kIoThread);
  Batches batches_;
  Users users_ LOCKSLEY_GUARDED_BY(kIoThread);
  HandshakeQueue handshakes_ LOCKSLEY_GUARDED_BY(kIoThread);
  HeldReplies held_replies_ LOCKSLEY_GUARDED_BY(kIoThread);
  Warnings warnings_ LOCKSLEY_GUARDED_BY(kIoThread);
  Audit audit_ LOCKSLEY_GUARDED_BY(kIoThread);
  MachinesBoard machines_;
  // Shared with the lanes, which outlive this.
  const std::shared_ptr<LogBudget> log_budget_;
  ConfigChanges config_changes_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
