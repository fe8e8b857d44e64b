// locksleyd: loads the configuration, builds each part by hand, runs, and takes the parts down in
// reverse.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "config/auto_limits.h"
#include "config/words.h"
#include "daemon/base/exit_codes.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/log/logging.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/net/endpoint_text.h"
#include "daemon/base/standard_descriptors.h"
#include "daemon/check_program.h"
#include "daemon/command_line.h"
#include "daemon/config_source.h"
#include "daemon/forced_exit.h"
#include "daemon/handler_set.h"
#include "daemon/handlers/plugin_worker.h"
#include "daemon/http/login.h"
#include "daemon/kept_hangups.h"
#include "daemon/metrics/build_info.h"
#include "daemon/migrate_program.h"
#include "daemon/parts.h"
#include "daemon/privileges.h"
#include "daemon/process/keeper/keeper.h"
#include "daemon/reconfiguration.h"
#include "daemon/repair_program.h"
#include "daemon/service.h"
#include "daemon/standby/peers.h"
#include "daemon/startup.h"
#include "daemon/tls/context.h"
#include "daemon/upstream_part.h"
#include "daemon/work_program.h"

namespace locksley::daemon {
namespace {

// Settings of the process itself, made before any part.
void prepare_process(const config::Config& config, spdlog::logger& log) {
  raise_descriptor_limit(config.limits.max_clients, log);
  tune_heap();
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of the write
  std::signal(SIGCHLD, SIG_DFL);  // a parent may have left it ignored, and then waitpid() finds no child
}

// The batches of an earlier process, and the certificates: all that clients find once the ports are
// open.
void restore(ServingParts& serving, TlsContexts tls) LOCKSLEY_REQUIRES(kIoThread) {
  or_fail(serving.server.batches().restore_all());
  serving.workers.begin();
  serving.use_tls(std::move(tls));
}

// Lets clients in. The HTTP port is opened first: a client that can connect to the other finds
// everything there. Returns the line that says where the ports are.
std::string open_ports(PortParts& bound, StoreParts& storage, ServingParts& serving)
    LOCKSLEY_REQUIRES(kIoThread) {
  Ports& ports = bound.ports;
  storage.standby.hand_over();
  storage.cluster->set_role(ClusterBoard::Role::kActive);
  or_fail(in_section("http", serving.http.listen(std::move(ports.http))), kExitUnavailable);
  or_fail(in_section("listen", serving.server.listen(std::move(ports.listen))), kExitUnavailable);
  std::string ready = fmt::format("ready listen={} http={}", bound.listen_at, bound.http_at);
  if (ports.workers) {
    const auto at =
        or_fail(in_section("workers", serving.workers.listen(*std::move(ports.workers), bound.workers_at)),
                kExitUnavailable);
    ready += " workers=" + to_text(at);
  }
  return ready;
}

// Jobs run from here on, in this process and in others.
void start_jobs(SchedulerParts& scheduler, Store* store, WorkerPort& workers) LOCKSLEY_REQUIRES(kIoThread) {
  scheduler.pool.start(scheduler.counts.workers, scheduler.counts.reserved);
  HandlerLanes& processes = scheduler.handlers->processes();
  if (store != nullptr) processes.set_store([store] { return store->has_room(); });
  processes.start();
  if (workers.is_open()) workers.start();
}

void log_start(const config::Config& config, const ConfigSource& source, const SchedulerParts& scheduler,
               const PortParts& bound, const Store* store, spdlog::logger& log) LOCKSLEY_REQUIRES(kIoThread) {
  for (const std::string& warning : warnings_about_handlers(config)) log.warn("{}", warning);
  LogLine("started")
      .with("version", kBuildVersion)
      .with("revision", kBuildRevision)
      .with("listen", bound.listen_at)
      .with("http", bound.http_at)
      .with("workers", scheduler.counts.workers)
      .with("handlers", scheduler.handlers->directory().entries().size())
      .with("config", source.file.empty() ? "(defaults)" : source.file)
      .with("store", store == nullptr ? "memory" : store->place())
      .with("durability", store == nullptr ? "none" : config::word_of(config.store.durability))
      .write(log, spdlog::level::info);
}

// The upstream gets the lanes' offers, now and after each change of a handler.
void join_upstream(ServingParts& serving) LOCKSLEY_REQUIRES(kIoThread) {
  serving.live_handlers.on_change([&serving] {
    kIoThread.assert_held();
    serving.workers.update();
    serving.offer_lanes();
  });
  serving.offer_lanes();
  if (serving.upstream != nullptr) serving.upstream->start();
}

// Serves until a signal ends it, and takes new configurations meanwhile. Returns the exit code. An
// exception would be a bug of this program, and ends the process at once: only before this an error
// of the system is one of the start.
int serve_until_signal(const std::string& ready, const config::Machine& machine, const ConfigSource& source,
                       SchedulerParts& scheduler, Standby& standby, ServingParts& serving,
                       const std::shared_ptr<spdlog::logger>& log) noexcept LOCKSLEY_REQUIRES(kIoThread) {
  Reconfiguration reconfiguration({.io = serving.io,
                                   .pool = scheduler.pool,
                                   .server = serving.server,
                                   .handlers = *scheduler.handlers,
                                   .live_handlers = serving.live_handlers,
                                   .metrics = serving.http.scheduler_metrics(),
                                   .machine = machine,
                                   .log = log},
                                  source);
  serving.server.on_config({.reload =
                                [&](auto done) {
                                  kIoThread.assert_held();
                                  reconfiguration.reload(std::move(done));
                                },
                            .set =
                                [&](auto values, auto done) {
                                  kIoThread.assert_held();
                                  reconfiguration.set(std::move(values), std::move(done));
                                }});
  serving.take_part_in(reconfiguration, log);
  Service service({.io = serving.io,
                   .pool = scheduler.pool,
                   .server = serving.server,
                   .http = serving.http.http(),
                   .processes = scheduler.handlers->processes(),
                   .workers = serving.workers,
                   .health = serving.http.health(),
                   .reconfiguration = reconfiguration,
                   .upstream = serving.upstream.get(),
                   .log = log});
  standby.resend_signals();
  return service.run(ready);
}

// Each worker ends the job that it runs, after which no thread calls into the server; then the
// rings drop what is left. Returns the exit code: `exit_code`, unless results were lost.
int stop(int exit_code, SchedulerParts& scheduler, Store* store, ServingParts& serving,
         const std::shared_ptr<spdlog::logger>& log) LOCKSLEY_REQUIRES(kIoThread) {
  if (serving.network) serving.network->stop();
  serving.workers.stop();
  scheduler.handlers->processes().stop();
  // After these, so that the upstream learns how their jobs ended.
  if (serving.upstream != nullptr) serving.upstream->end(std::chrono::seconds(1));
  {
    const ForcedExit forced_exit(store, exit_code, log);
    scheduler.pool.stop();
  }
  if (store != nullptr) {
    store->stop();
    if (store->lost() != 0) exit_code = kExitIoError;
  }
  for (Lane* each : scheduler.handlers->lanes()) each->detach_all();
  return exit_code;
}

// The table of contents. Each group of parts is built here, in this order, and destroyed in
// reverse; a part that cannot be built throws StartFailure.
// `last`: the last line of the log, which the caller writes once all parts are destroyed, and
// another daemon can open the store.
int build_and_run(const config::Config& config, const config::Machine& machine, const ConfigSource& source,
                  const std::shared_ptr<spdlog::logger>& log, LogLine& last) {
  const ThreadRoleScope role(kIoThread);

  // As root, if it was started so. Users, tokens, programs and certificates are read, and the ports
  // are bound, and opened later: other daemons on the same database know from the store where they
  // are.
  const Privileges privileges = or_fail(Privileges::make(config.process), kExitConfig);
  prepare_process(config, *log);
  auto token = or_fail(read_http_token(config.http), kExitConfig);
  auto standby_token = or_fail(read_http_token(config.http), kExitConfig);
  SchedulerParts scheduler(config, log);
  PortParts bound(config, *log);

  // Root ends here, before the first byte from the network: files that are made or opened from here
  // on belong to the user.
  or_fail(drop_privileges(privileges, *scheduler.handlers, config), kExitUnavailable);

  // The batches, for which a daemon that is not the only one may have to wait.
  StoreParts storage(config, bound, std::move(standby_token), log);
  if (storage.standby.is_told_to_end()) return kExitOk;
  Store* const store = storage.store.get();

  // All that serves, ready before the first client.
  ServingParts serving(config, scheduler, storage, std::move(token), log);
  restore(serving, std::move(bound.tls));

  // Clients, then jobs.
  const std::string ready = open_ports(bound, storage, serving);
  std::unique_ptr<PeerCheck> peers;
  try {
    start_jobs(scheduler, store, serving.workers);
    log_start(config, source, scheduler, bound, store, *log);
    join_upstream(serving);
    peers = storage.watch_peers(config, log);
  } catch (const std::system_error& error) {
    // Jobs may run already, and use all that the exception would destroy.
    log->error("the daemon cannot start: {}", error.what());
    end_without_replies(*log);
  }
  int exit_code = serve_until_signal(ready, machine, source, scheduler, storage.standby, serving, log);

  // The end, in reverse; then the parts are destroyed.
  peers.reset();
  exit_code = stop(exit_code, scheduler, store, serving, log);
  const ServerState& state = serving.server.state();
  last.with("connections", state.stats().connections_accepted.get())
      .with("batches", state.batches_accepted());
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
    LogLine last("ended");
    const int exit_code = build_and_run(config, machine, command_line.config, log, last);
    last.with("exit_code", exit_code)
        .with("lost_log_lines", lost_log_lines())
        .write(*log, spdlog::level::info);
    return exit_code;
  } catch (const StartFailure& failure) {
    for (const std::string& problem : with_positions(command_line.config, failure.problems())) {
      log->error("{}", problem);
    }
    return failure.exit_code();
  } catch (const std::system_error& error) {
    // Of a part that takes descriptors or threads when it is made.
    log->error("the daemon cannot start: {}", error.what());
    return kExitUnavailable;
  }
}

// Whether the process is the daemon itself.
bool serves(const CommandLine& command_line) {
  return !command_line.check_config && !command_line.repair && !command_line.work &&
         !command_line.migrate_to && !command_line.undo_migration;
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
  // From before the file is read: for signals that come later it is read again.
  std::optional<KeptHangups> hangups;
  if (serves(*parsed.command_line)) hangups.emplace();
  auto loaded = load(parsed.command_line->config);
  if (!loaded) {
    for (const std::string& problem : loaded.error()) std::fprintf(stderr, "%s\n", problem.c_str());
    return kExitConfig;
  }
  config::Config config = *std::move(loaded);
  const config::Machine machine = this_machine(config);
  config::derive_limits(config, machine);
  if (parsed.command_line->check_config) return check_config(config, parsed.command_line->config);
  if (parsed.command_line->repair) return repair(config);
  return serve(config, machine, *parsed.command_line);
}

}  // namespace
}  // namespace locksley::daemon

int main(int argc, char** argv) {
  locksley::daemon::open_standard_descriptors(locksley::daemon::ClosedOutput::kIsDropped);
  return locksley::daemon::run(argc, argv);
}
