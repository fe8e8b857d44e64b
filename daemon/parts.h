// The parts of locksleyd, in the groups in which main() builds them.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/auth/authenticator.h"
#include "daemon/auth/secret.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/handler_set.h"
#include "daemon/http_port.h"
#include "daemon/live_handlers.h"
#include "daemon/network/network_threads.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/server.h"
#include "daemon/standby/standby.h"
#include "daemon/startup.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/store.h"
#include "daemon/tls/context.h"
#include "daemon/upstream/handler_use.h"
#include "daemon/upstream/upstream.h"
#include "daemon/worker_port/worker_port.h"
#include "proto/block_pool.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class PeerCheck;
class Reconfiguration;

// Each group is an object on the stack of build_and_run() (main.cc), which builds one group after
// the other: a group uses those before it, and `config`, which outlives them all. Its members are
// built in their order, and destroyed in reverse; once jobs run, stop() in main.cc stops them
// before that. The main thread only. A constructor reads files and loads plugins, and waits for
// nothing else unless it says so; if a part cannot be built, it throws StartFailure.

// What decides which job is next, and what runs the jobs. None runs yet.
struct SchedulerParts {
  SchedulerParts(const config::Config& config, const std::shared_ptr<spdlog::logger>& log)
      LOCKSLEY_REQUIRES(kIoThread);

  proto::BlockPool blocks;  // what clients send lies in these, for as long as a batch needs it
  const WorkerCounts counts;
  const FairRing::Options ring;  // of all lanes
  Lane lane;                     // the pool's
  Pool pool;
  const std::unique_ptr<HandlerSet> handlers;
};

// What clients need to find the daemon and to trust it. The ports are bound, and do not listen.
struct PortParts {
  PortParts(const config::Config& config, spdlog::logger& log);

  TlsContexts tls;
  Ports ports;
  // Where they are; empty: no port for workers.
  const std::string http_at;
  const std::string listen_at;
  const std::string workers_at;
};

// Where the batches are kept. The constructor blocks until no other daemon has them, or until this
// one is told to end (Standby::is_told_to_end()): then there is no store.
struct StoreParts {
  // `bound` outlives this. `token`: that of the HTTP port, for the time in which this daemon stands
  // by.
  StoreParts(const config::Config& config, const PortParts& bound, std::optional<Secret> token,
             const std::shared_ptr<spdlog::logger>& log);

  // Ends the process once this daemon has lost its database and another one has taken over. Null:
  // no other daemon can have the store.
  std::unique_ptr<PeerCheck> watch_peers(const config::Config& config,
                                         const std::shared_ptr<spdlog::logger>& log) const;

  const std::shared_ptr<ClusterBoard> cluster;
  Standby standby;
  std::unique_ptr<Store> store;  // null: all is in memory only
};

// All that serves others, by the ports and as a worker of an upstream. Nothing listens yet.
struct ServingParts {
  // `jobs` and `storage` outlive this. `token`: that of the HTTP port.
  ServingParts(const config::Config& config, SchedulerParts& jobs, StoreParts& storage,
               std::optional<Secret> token, const std::shared_ptr<spdlog::logger>& log)
      LOCKSLEY_REQUIRES(kIoThread);

  // Connections that exist keep the certificate with which they began.
  void use_tls(TlsContexts contexts) LOCKSLEY_REQUIRES(kIoThread);
  // Tells the upstream, if there is one, what the lanes offer it now.
  void offer_lanes() LOCKSLEY_REQUIRES(kIoThread);
  // From now on these parts prepare, and apply, what concerns them in each new configuration. They
  // outlive `reconfiguration`.
  void take_part_in(Reconfiguration& reconfiguration, const std::shared_ptr<spdlog::logger>& log);

  SchedulerParts& scheduler;
  Tenants tenants;
  asio::io_context io;
  Authenticator authenticator;
  const std::unique_ptr<NetworkThreads> network;  // null: the I/O thread does their work
  Server server;
  WorkerPort workers;
  HandlerUse handler_use;
  const std::unique_ptr<Upstream> upstream;  // null: none
  HttpPort http;
  LiveHandlers live_handlers;
};

}  // namespace locksley::daemon
