// locksleyd: loads the configuration, builds each part by hand, runs, and takes the parts down in reverse.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "config/auto_limits.h"
#include "config/dump.h"
#include "config/lanes.h"
#include "config/validate.h"
#include "config/words.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/auth/authenticator.h"
#include "daemon/base/bound_port.h"
#include "daemon/base/endpoint_text.h"
#include "daemon/base/exit_codes.h"
#include "daemon/base/io_thread.h"
#include "daemon/base/log_line.h"
#include "daemon/base/logging.h"
#include "daemon/command_line.h"
#include "daemon/config_source.h"
#include "daemon/forced_exit.h"
#include "daemon/handler_set.h"
#include "daemon/handlers/plugin_worker.h"
#include "daemon/http_port.h"
#include "daemon/live_handlers.h"
#include "daemon/metrics/build_info.h"
#include "daemon/migrate_program.h"
#include "daemon/network/network_threads.h"
#include "daemon/privileges.h"
#include "daemon/process/keeper/keeper.h"
#include "daemon/reconfiguration.h"
#include "daemon/server/server.h"
#include "daemon/service.h"
#include "daemon/standby/standby.h"
#include "daemon/startup.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/store.h"
#include "daemon/tls/context.h"
#include "daemon/upstream_part.h"
#include "daemon/work_program.h"
#include "daemon/worker_port/worker_port.h"
#include "proto/block_pool.h"
#include "proto/command_reader.h"

namespace locksley::daemon {
namespace {

using Prepared = std::expected<Reconfiguration::Commit, std::vector<std::string>>;

Prepared prepare_http(HttpPort& http, const config::Config& config) {
  auto token = read_http_token(config.http);
  if (!token) return std::unexpected(std::vector{token.error()});
  return [&http, mode = config.http.login, hosts = config.http.hosts, token = *std::move(token)]() mutable {
    http.login().set(mode, std::move(token));
    http.hosts().set(std::move(hosts));
  };
}

void use_tls(Server& server, HttpServer& http, WorkerPort& workers, TlsContexts contexts)
    LOCKSLEY_REQUIRES(kIoThread) {
  server.use_tls(std::move(contexts.listen));
  http.use_tls(std::move(contexts.http), server.state().handshakes());
  workers.update(std::move(contexts.workers));
}

// Connections that exist keep the certificate with which they began.
Prepared prepare_tls(Server& server, HttpServer& http, WorkerPort& workers,
                     const std::shared_ptr<spdlog::logger>& log, const config::Config& config) {
  auto contexts = load_tls(config);
  if (!contexts) return std::unexpected(std::move(contexts.error()));
  return [&server, &http, &workers, log, contexts = *std::move(contexts)]() mutable {
    kIoThread.assert_held();
    log_warnings(contexts, *log);
    use_tls(server, http, workers, std::move(contexts));
  };
}

// The port for remote workers, once a handler is `remote`: at the start, or later.
Prepared prepare_worker_port(WorkerPort& workers, const config::Config& config) {
  kIoThread.assert_held();
  if (!config::serves_remote_workers(config) || workers.is_started()) return [] {};
  if (!workers.is_open()) {  // not yet by a configuration that was then refused
    auto port = BoundPort::bind(config.workers.address, config.workers.port);
    if (!port) return std::unexpected(std::vector{"workers: " + port.error()});
    const std::string address = cluster_workers(config, port->endpoint());
    if (auto opened = workers.listen(*std::move(port), address); !opened)
      return std::unexpected(std::vector{"workers: " + opened.error()});
  }
  return [&workers] {
    kIoThread.assert_held();
    workers.start();
  };
}

// The table of contents. Each part is built here, in this order; one that cannot be built throws StartFailure.
int build_and_run(const config::Config& config, const config::Machine& machine, const ConfigSource& source,
                  const std::shared_ptr<spdlog::logger>& log) {
  const ThreadRoleScope role(kIoThread);

  // What is read before root is given up: users, tokens, programs, certificates.
  const Privileges privileges = or_fail(Privileges::make(config.process), kExitConfig);
  raise_descriptor_limit(config.limits.max_clients, *log);
  tune_heap();
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of the write
  auto token = or_fail(read_http_token(config.http), kExitConfig);
  auto standby_token = or_fail(read_http_token(config.http), kExitConfig);

  // What clients send lies in its blocks, for as long as a batch needs it.
  proto::BlockPool blocks(proto::CommandReader::kPooledBytes);

  // The scheduler.
  const WorkerCounts counts = worker_counts(config, *log);
  const FairRing::Options ring = ring_options(config, counts.workers);
  Lane lane("cpu", ring);
  Pool pool(lane);
  const auto handlers = or_fail(HandlerSet::make(config, lane, ring, log), kExitConfig);

  TlsContexts tls = or_fail(load_tls(config), kExitConfig);
  log_warnings(tls, *log);

  // Bound by root, and opened later: other daemons on the same database know from the store where they are.
  Ports ports = or_fail(bind_ports(config), kExitUnavailable);
  const std::string http_at = to_text(ports.http.endpoint());
  const std::string listen_at = to_text(ports.listen.endpoint());
  const std::string workers_at = ports.workers ? cluster_workers(config, ports.workers->endpoint()) : "";

  // Root ends here: what is made and opened from here on belongs to the user, and no byte has come from the network.
  or_fail(drop_privileges(privileges, *handlers, config), kExitUnavailable);

  // The batches, for which a daemon that is not the only one may have to wait.
  const auto cluster = std::make_shared<ClusterBoard>();
  Standby standby({.config = config,
                   .http = ports.http,
                   .listen = ports.listen,
                   .workers = ports.workers,
                   .workers_at = workers_at,
                   .tls = tls,
                   .http_token = std::move(standby_token),
                   .cluster = cluster,
                   .version = kBuildVersion,
                   .log = log});
  auto opened = open_store(
      config,
      {.name = cluster_name(config),
       .wire = cluster_wire(config, ports),
       .workers = workers_at,
       .board = cluster,
       .stand_by = [&standby](auto time) { return or_fail(standby.wait(time), kExitUnavailable); }},
      log);
  if (standby.is_told_to_end()) return kExitOk;
  const std::unique_ptr<Store> store = or_fail(std::move(opened), kExitUnavailable);

  // The two ports.
  asio::io_context io(1);  // one thread runs it: fewer locks
  Authenticator authenticator(io.get_executor());
  const auto network = or_fail(
      start_network_threads(io.get_executor(), config.listen, [&pool] { return pool.has_free_worker(); }),
      kExitUnavailable);
  Server server({.io = io,
                 .handlers = handlers->directory(),
                 .lanes = handlers->lanes(),
                 .pool = pool,
                 .store = store.get(),
                 .authenticator = authenticator,
                 .log = log,
                 .version = kBuildVersion,
                 .blocks = &blocks,
                 .cluster = cluster.get(),
                 .network = network.get()},
                config);
  WorkerPort workers(server.state(), store.get());
  server.on_stored([&workers](Ticket ticket) {
    kIoThread.assert_held();
    workers.stored(ticket);
  });
  HandlerUse handler_use;
  const std::unique_ptr<Upstream> upstream =
      or_fail(make_upstream(config, &pool, handler_use, log), kExitConfig);
  HttpPort http({.io = io,
                 .authenticator = authenticator,
                 .handlers = *handlers,
                 .lane = lane,
                 .pool = pool,
                 .store = store.get(),
                 .server = server,
                 .workers = workers,
                 .upstream = upstream.get(),
                 .cluster = *cluster},
                config, std::move(token));
  LiveHandlers live_handlers({.io = io,
                              .handlers = *handlers,
                              .server = server,
                              .metrics = http.scheduler_metrics(),
                              .use = handler_use,
                              .log = log});
  or_fail(server.batches().restore_all(), kExitUnavailable);
  workers.begin();
  use_tls(server, http.http(), workers, std::move(tls));

  // Clients. The HTTP port is opened first: a client that can connect to the other finds everything there.
  standby.hand_over();
  cluster->set_role(ClusterBoard::Role::kActive);
  or_fail(in_section("http", http.listen(std::move(ports.http))), kExitUnavailable);
  or_fail(in_section("listen", server.listen(std::move(ports.listen))), kExitUnavailable);
  std::string ready = fmt::format("ready listen={} http={}", listen_at, http_at);
  if (ports.workers) {
    const auto at = or_fail(in_section("workers", workers.listen(*std::move(ports.workers), workers_at)),
                            kExitUnavailable);
    ready += " workers=" + to_text(at);
  }

  // Jobs.
  pool.start(counts.workers, counts.reserved);
  if (store != nullptr) handlers->processes().set_store([&store] { return store->has_room(); });
  handlers->processes().start();
  if (workers.is_open()) workers.start();
  LogLine("started")
      .with("version", kBuildVersion)
      .with("revision", kBuildRevision)
      .with("listen", listen_at)
      .with("http", http_at)
      .with("workers", counts.workers)
      .with("handlers", handlers->directory().entries().size())
      .with("config", source.file.empty() ? "(defaults)" : source.file)
      .with("store", store == nullptr ? "memory" : store->place())
      .with("durability", store == nullptr ? "none" : config::word_of(config.store.durability))
      .write(*log, spdlog::level::info);

  const auto offer_lanes = [&] {
    kIoThread.assert_held();
    if (upstream != nullptr) upstream->offer(offered_lanes(server.config(), *handlers, pool.workers()));
  };
  live_handlers.on_change([&] {
    kIoThread.assert_held();
    workers.update();
    offer_lanes();
  });
  offer_lanes();
  if (upstream != nullptr) upstream->start();

  // Service, until a signal ends it.
  int exit_code = kExitSoftware;
  {
    Reconfiguration reconfiguration({.io = io,
                                     .pool = pool,
                                     .server = server,
                                     .handlers = *handlers,
                                     .live_handlers = live_handlers,
                                     .metrics = http.scheduler_metrics(),
                                     .machine = machine,
                                     .log = log},
                                    source);
    server.on_config({.reload =
                          [&](auto done) {
                            kIoThread.assert_held();
                            reconfiguration.reload(std::move(done));
                          },
                      .set =
                          [&](auto values, auto done) {
                            kIoThread.assert_held();
                            reconfiguration.set(std::move(values), std::move(done));
                          }});
    reconfiguration.add_part([&](const config::Config& next) { return prepare_http(http, next); });
    reconfiguration.add_part(
        [&](const config::Config& next) { return prepare_tls(server, http.http(), workers, log, next); });
    reconfiguration.add_part([&](const config::Config&) -> Prepared { return offer_lanes; });
    reconfiguration.add_part([&](const config::Config& next) { return prepare_worker_port(workers, next); });
    Service service({.io = io,
                     .pool = pool,
                     .server = server,
                     .http = http.http(),
                     .processes = handlers->processes(),
                     .workers = workers,
                     .health = http.health(),
                     .reconfiguration = reconfiguration,
                     .upstream = upstream.get(),
                     .log = log});
    standby.resend_signals();
    exit_code = service.run(ready);
  }

  // The end, in reverse: each worker ends the job that it runs, after which no thread calls into the server;
  // then the rings drop what is left, and the parts are destroyed.
  if (network) network->stop();
  if (upstream != nullptr) upstream->end(std::chrono::seconds(1));
  workers.stop();
  handlers->processes().stop();
  {
    const ForcedExit forced_exit(store.get(), exit_code, log);
    pool.stop();
  }
  if (store != nullptr) {
    store->stop();
    if (store->lost() != 0) exit_code = kExitIoError;
  }
  for (Lane* each : handlers->lanes()) each->detach_all();
  LogLine("ended")
      .with("exit_code", exit_code)
      .with("connections", server.state().stats().connections_accepted.get())
      .with("batches", server.state().batches_accepted())
      .with("lost_log_lines", lost_log_lines())
      .write(*log, spdlog::level::info);
  return exit_code;
}

int serve(const config::Config& config, const config::Machine& machine, const CommandLine& command_line) {
  forbid_new_privileges(config.process.core_dumps);
  const auto log = make_log(config.log);
  try {
    if (command_line.work) {
      const ThreadRoleScope role(kIoThread);
      return run_work_program(config, log);
    }
    if (command_line.migrate_to) return migrate(config, *command_line.migrate_to, log);
    if (command_line.undo_migration) return undo_migration(config, log);
    return build_and_run(config, machine, command_line.config, log);
  } catch (const StartFailure& failure) {
    for (const std::string& problem : failure.problems()) log->error("{}", problem);
    return failure.exit_code();
  }
}

int repair(const config::Config& config) {
  if (config.store.engine != config::StoreEngine::kRocksdb) {
    std::fputs("--repair: the store is a database on a server, which has tools of its own\n", stderr);
    return kExitConfig;
  }
  if (config.store.path.empty()) {
    std::fputs("--repair: store.path is empty, so there is nothing to repair\n", stderr);
    return kExitConfig;
  }
  // The daemon could not open files that belong to root.
  const auto privileges = Privileges::make(config.process);
  if (const auto dropped = privileges ? privileges->drop() : std::unexpected(privileges.error()); !dropped) {
    std::fprintf(stderr, "%s\n", dropped.error().c_str());
    return kExitConfig;
  }
  if (auto repaired = repair_embedded({config.store.path, config.store.durability, nullptr}); !repaired) {
    std::fprintf(stderr, "%s\n", repaired.error().c_str());
    return kExitUnavailable;
  }
  std::printf("repaired: what could be read of %s is there; what could not is lost\n",
              config.store.path.c_str());
  return kExitOk;
}

int run(int argc, char** argv) {
  const ParsedCommandLine parsed = parse_command_line(argc, argv, kBuildVersion);
  if (!parsed.command_line) return parsed.exit_code;
  if (parsed.command_line->keeper) {
    return keep_processes(kKeeperSocket, parsed.command_line->keeper_users);
  }
  if (const std::string& file = parsed.command_line->plugin_worker; !file.empty()) {
    const std::string& handler = parsed.command_line->handler;
    return parsed.command_line->check ? check_plugin(file, handler) : run_plugin_worker(file, handler);
  }
  auto loaded = load(parsed.command_line->config);
  if (!loaded) {
    for (const std::string& problem : loaded.error()) std::fprintf(stderr, "%s\n", problem.c_str());
    return kExitConfig;
  }
  config::Config config = *std::move(loaded);
  const config::Machine machine = this_machine(config);
  config::derive_limits(config, machine);
  if (parsed.command_line->check_config) {
    if (const HandlerProblems problems = find_missing_programs(config.handlers); !problems.empty()) {
      for (const std::string& problem : problems) std::fprintf(stderr, "%s\n", problem.c_str());
      return kExitConfig;
    }
    for (const std::string& warning : config::lane_warnings(config)) {
      std::fprintf(stderr, "warning: %s\n", warning.c_str());
    }
    std::fputs(config::dump(config::without_password(config)).c_str(), stdout);
    return kExitOk;
  }
  if (parsed.command_line->repair) return repair(config);
  return serve(config, machine, *parsed.command_line);
}

}  // namespace
}  // namespace locksley::daemon

int main(int argc, char** argv) { return locksley::daemon::run(argc, argv); }
