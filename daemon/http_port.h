// All of the HTTP port in one object.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "config/config.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/auth/authenticator.h"
#include "daemon/auth/secret.h"
#include "daemon/base/net/bound_port.h"
#include "daemon/handler_set.h"
#include "daemon/http/api/api.h"
#include "daemon/http/hosts.h"
#include "daemon/http/login.h"
#include "daemon/http/pages/health.h"
#include "daemon/http/router.h"
#include "daemon/http/server.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/scheduler_metrics.h"
#include "daemon/server/server.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/store.h"
#include "daemon/tls/context.h"
#include "daemon/worker_port/worker_port.h"

namespace locksley::daemon {

class Upstream;

// The HTTP port: its server, its login, and all its pages (metrics, health, JSON, dashboard).
//
// A member of ServingParts (daemon/parts.h); all Parts outlive it. The I/O thread, or main's before
// that runs. Nothing blocks. Only listen() fails.
class HttpPort {
 public:
  struct Parts {
    asio::io_context& io;
    Authenticator& authenticator;
    HandlerSet& handlers;
    Lane& lane;  // the pool's
    Pool& pool;
    Store* store;  // null: all is in memory only
    Server& server;
    const WorkerPort& workers;
    const Upstream* upstream;  // null: none
    const ClusterBoard& cluster;
  };

  // `token`: none: no token is accepted.
  HttpPort(const Parts& parts, const config::Config& config, std::optional<Secret> token);
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  // Serves from now on. The error names the address and what the system said.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(BoundPort port) {
    return http_.listen(std::move(port));
  }

  Health& health() { return health_; }
  HttpLogin& login() { return login_; }
  HttpHosts& hosts() { return hosts_; }
  HttpServer& http() { return http_; }
  SchedulerMetrics& scheduler_metrics() { return scheduler_metrics_; }

 private:
  Health health_;
  HttpLogin login_;
  HttpHosts hosts_;
  SchedulerMetrics scheduler_metrics_;
  MetricsPage metrics_;
  Router router_;
  Api api_;
  HttpServer http_;
};

}  // namespace locksley::daemon
