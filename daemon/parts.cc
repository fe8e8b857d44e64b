#include "daemon/parts.h"

#include <spdlog/logger.h>

#include <expected>
#include <string_view>
#include <utility>
#include <vector>

#include "config/lanes.h"
#include "config/validate.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/net/bound_port.h"
#include "daemon/base/net/endpoint_text.h"
#include "daemon/metrics/build_info.h"
#include "daemon/reconfiguration.h"
#include "daemon/standby/peers.h"
#include "daemon/upstream_part.h"
#include "proto/command_reader.h"

namespace locksley::daemon {
namespace {

using Prepared = std::expected<Reconfiguration::Commit, std::vector<std::string>>;

TlsContexts load_tls_or_fail(const config::Config& config, spdlog::logger& log) {
  TlsContexts tls = or_fail(load_tls(config), kExitConfig);
  log_warnings(tls, log);
  return tls;
}

Prepared prepare_http(HttpPort& http, const config::Config& config) {
  auto token = read_http_token(config.http);
  if (!token) return std::unexpected(std::vector{token.error()});
  return [&http, mode = config.http.login, hosts = config.http.hosts, token = *std::move(token)]() mutable {
    http.login().set(mode, std::move(token));
    http.hosts().set(std::move(hosts));
  };
}

Prepared prepare_tls(ServingParts& serving, const std::shared_ptr<spdlog::logger>& log,
                     const config::Config& config) {
  auto contexts = load_tls(config);
  if (!contexts) return std::unexpected(std::move(contexts.error()));
  return [&serving, log, contexts = *std::move(contexts)]() mutable {
    kIoThread.assert_held();
    log_warnings(contexts, *log);
    serving.use_tls(std::move(contexts));
  };
}

// The port for remote workers, once a handler is `remote`: at the start, or later.
Prepared prepare_worker_port(WorkerPort& workers, const std::shared_ptr<spdlog::logger>& log,
                             const config::Config& config) {
  kIoThread.assert_held();
  if (!config::serves_remote_workers(config) || workers.is_started()) return [] {};
  if (!workers.is_open()) {  // not yet by a configuration that was then refused
    auto port = BoundPort::bind(config.workers.address, config.workers.port, "workers.port");
    if (!port) return std::unexpected(std::vector{"workers: " + port.error()});
    const std::string address = cluster_workers(config, port->endpoint());
    if (auto opened = workers.listen(*std::move(port), address); !opened)
      return std::unexpected(std::vector{"workers: " + opened.error()});
  }
  return [&workers, log] {
    kIoThread.assert_held();
    workers.start();
    LogLine("opened the port for workers")
        .with("workers", workers.address())
        .write(*log, spdlog::level::info);
  };
}

}  // namespace

SchedulerParts::SchedulerParts(const config::Config& config, const std::shared_ptr<spdlog::logger>& log)
    : blocks(proto::CommandReader::kPooledBytes),
      counts(worker_counts(config, *log)),
      ring(ring_options(config, counts.workers)),
      lane(std::string(config::kPoolLane), ring),
      pool(lane),
      handlers(or_fail(HandlerSet::make(config, lane, ring, log), kExitConfig)) {}

PortParts::PortParts(const config::Config& config, spdlog::logger& log)
    : tls(load_tls_or_fail(config, log)),
      ports(or_fail(bind_ports(config), kExitUnavailable)),
      http_at(to_text(ports.http.endpoint())),
      listen_at(to_text(ports.listen.endpoint())),
      workers_at(ports.workers ? cluster_workers(config, ports.workers->endpoint()) : "") {}

StoreParts::StoreParts(const config::Config& config, const PortParts& bound, std::optional<Secret> token,
                       const std::shared_ptr<spdlog::logger>& log)
    : cluster(std::make_shared<ClusterBoard>()),
      standby({.config = config,
               .http = bound.ports.http,
               .listen = bound.ports.listen,
               .workers = bound.ports.workers,
               .workers_at = bound.workers_at,
               .tls = bound.tls,
               .http_token = std::move(token),
               .cluster = cluster,
               .version = kBuildVersion,
               .log = log}) {
  auto opened =
      open_store(config,
                 {.name = cluster_name(config),
                  .wire = cluster_wire(config, bound.ports),
                  .workers = bound.workers_at,
                  .board = cluster,
                  .stand_by = [this](auto time) { return or_fail(standby.wait(time), kExitUnavailable); }},
                 log);
  if (!standby.is_told_to_end()) store = or_fail(std::move(opened));
}

std::unique_ptr<PeerCheck> StoreParts::watch_peers(const config::Config& config,
                                                   const std::shared_ptr<spdlog::logger>& log) const {
  if (config.store.engine != config::StoreEngine::kPostgresql) return nullptr;
  const config::Tls& tls = config.listen.tls;
  const bool has_tls = !tls.certificate.empty();
  return std::make_unique<PeerCheck>(
      cluster, PeerCheck::Options{.tls = has_tls, .certificate = tls.certificate, .key = tls.key},
      [log](std::string_view why) {
        LogLine(
            "store: the database does not confirm that this daemon lives: it ends without replying to "
            "any client")
            .with("reason", why)
            .write(*log, spdlog::level::critical);
        end_without_replies(*log);
      });
}

ServingParts::ServingParts(const config::Config& config, SchedulerParts& jobs, StoreParts& storage,
                           std::optional<Secret> token, const std::shared_ptr<spdlog::logger>& log)
    : scheduler(jobs),
      io(1),  // one thread runs it: fewer locks
      authenticator(io.get_executor()),
      network(or_fail(start_network_threads(io.get_executor(), config.listen,
                                            [&pool = jobs.pool] { return pool.has_free_worker(); }),
                      kExitUnavailable)),
      server({.io = io,
              .tenants = tenants,
              .handlers = jobs.handlers->directory(),
              .lanes = jobs.handlers->lanes(),
              .pool = jobs.pool,
              .store = storage.store.get(),
              .authenticator = authenticator,
              .log = log,
              .version = kBuildVersion,
              .blocks = &jobs.blocks,
              .cluster = storage.cluster.get(),
              .network = network.get()},
             config),
      workers(server.state(), storage.store.get()),
      upstream(or_fail(make_upstream(config, &jobs.pool, handler_use, log), kExitConfig)),
      http({.io = io,
            .authenticator = authenticator,
            .handlers = *jobs.handlers,
            .lane = jobs.lane,
            .pool = jobs.pool,
            .store = storage.store.get(),
            .server = server,
            .workers = workers,
            .upstream = upstream.get(),
            .cluster = *storage.cluster},
           config, std::move(token)),
      live_handlers(
          {.io = io, .handlers = *jobs.handlers, .server = server, .use = handler_use, .log = log}) {
  server.on_outcome([this] {
    kIoThread.assert_held();
    workers.store_advanced();
  });
}

void ServingParts::use_tls(TlsContexts contexts) {
  server.use_tls(std::move(contexts.listen));
  http.http().use_tls(std::move(contexts.http), server.state().handshakes());
  workers.update(std::move(contexts.workers));
}

void ServingParts::offer_lanes() {
  if (upstream == nullptr) return;
  upstream->offer(offered_lanes(server.config(), *scheduler.handlers, scheduler.pool.workers()));
}

void ServingParts::take_part_in(Reconfiguration& reconfiguration,
                                const std::shared_ptr<spdlog::logger>& log) {
  reconfiguration.add_part([this](const config::Config& next) { return prepare_http(http, next); });
  reconfiguration.add_part([this, log](const config::Config& next) { return prepare_tls(*this, log, next); });
  reconfiguration.add_part([this](const config::Config&) -> Prepared {
    return [this] {
      kIoThread.assert_held();
      offer_lanes();
    };
  });
  reconfiguration.add_part(
      [this, log](const config::Config& next) { return prepare_worker_port(workers, log, next); });
}

}  // namespace locksley::daemon
