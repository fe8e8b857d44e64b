// locksleyd: the table of contents. Loads the configuration, builds each part by hand, runs, and takes down
// in reverse.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "config/dump.h"
#include "config/load.h"
#include "config/words.h"
#include "core/lane.h"
#include "core/pool.h"
#include "daemon/auth/authenticator.h"
#include "daemon/command_line.h"
#include "daemon/cpu_count.h"
#include "daemon/exit_codes.h"
#include "daemon/handler_set.h"
#include "daemon/handlers/plugin_worker.h"
#include "daemon/http/api.h"
#include "daemon/http/assets.h"
#include "daemon/http/build_info.h"
#include "daemon/http/health.h"
#include "daemon/http/limit_metrics.h"
#include "daemon/http/login.h"
#include "daemon/http/metrics_page.h"
#include "daemon/http/operator_pages.h"
#include "daemon/http/process_metrics.h"
#include "daemon/http/scheduler_metrics.h"
#include "daemon/http/server.h"
#include "daemon/http/server_metrics.h"
#include "daemon/http/store_metrics.h"
#include "daemon/http/tls_metrics.h"
#include "daemon/live_handlers.h"
#include "daemon/logging.h"
#include "daemon/privileges.h"
#include "daemon/process/keeper.h"
#include "daemon/reconfiguration.h"
#include "daemon/server/server.h"
#include "daemon/service.h"
#include "daemon/store/store.h"
#include "daemon/tls/context.h"

namespace locksley::daemon {
namespace {

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const bool is_v6 = endpoint.address().is_v6();
  return fmt::format(fmt::runtime(is_v6 ? "[{}]:{}" : "{}:{}"), endpoint.address().to_string(),
                     endpoint.port());
}

// One descriptor a client, and some for everything else.
void raise_descriptor_limit(std::uint64_t clients, spdlog::logger& log) {
  constexpr rlim_t kOthers = 128;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < clients + kOthers) {
    log.warn("limits.max_clients is {}, but the process may have only {} descriptors", clients,
             limit.rlim_cur);
  }
}

Store::Options store_options(const config::Config& config) {
  return {.path = config.store.path, .durability = config.store.durability};
}

// Jobs that run while the daemon ends, and whose batches are stored, are left to the next process where they
// take longer than this.
constexpr auto kJobsGrace = std::chrono::seconds(2);

// While it lives the workers have kJobsGrace to end their jobs. Then what they have published is written, and
// the process ends without them.
class LastWord {
 public:
  LastWord(Store* store, int exit_code, std::shared_ptr<spdlog::logger> log) {
    if (store == nullptr) return;
    thread_ = std::jthread([store, exit_code, log = std::move(log)](const std::stop_token& ended) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any woken;
      if (woken.wait_for(lock, ended, kJobsGrace, [&] { return ended.stop_requested(); })) return;
      store->stop();
      log->warn("ended while jobs ran: they will run again at the next start");
      log->flush();
      std::_Exit(exit_code);
    });
  }

 private:
  std::jthread thread_;
};

std::expected<Reconfiguration::Commit, std::vector<std::string>> prepare_login(HttpLogin& login,
                                                                               const config::Config& config) {
  auto token = read_http_token(config.http);
  if (!token) return std::unexpected(std::vector{token.error()});
  return [&login, mode = config.http.login, token = *std::move(token)]() mutable {
    login.set(mode, std::move(token));
  };
}

// Connections that there are go on with what they began with.
std::expected<Reconfiguration::Commit, std::vector<std::string>> prepare_tls(
    Server& server, HttpServer& http, const std::shared_ptr<spdlog::logger>& log,
    const config::Config& config) {
  auto contexts = load_tls(config);
  if (!contexts) return std::unexpected(std::move(contexts.error()));
  return [&server, &http, log, contexts = *std::move(contexts)]() mutable {
    log_warnings(contexts, *log);
    server.use_tls(std::move(contexts.listen));
    http.use_tls(std::move(contexts.http), server.handshakes());
  };
}

// Keeps what only root can do later, as far as the configuration asks for it, and is the user then.
std::expected<void, std::string> lower(const Privileges& privileges, HandlerSet& handlers,
                                       const config::Config& config) {
  if (!privileges.will_drop()) return {};
  auto kept = handlers.processes().keep_root_for_others(privileges.user(), handlers.program_users());
  if (!kept) return kept;
  if (!config.store.path.empty()) {
    if (auto made = privileges.make_folder(config.store.path); !made) return made;
  }
  return privileges.lower();
}

int serve(const config::Config& config, const std::string& config_file) {
  forbid_new_privileges(config.process.core_dumps);
  const auto log = make_log(config.log);
  const auto privileges = Privileges::make(config.process);
  if (!privileges) {
    log->error("{}", privileges.error());
    return kExitConfig;
  }
  raise_descriptor_limit(config.limits.max_clients, *log);
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of the write

  const std::uint32_t workers = config.pool.workers != 0 ? config.pool.workers : usable_cpus();
  const FairRing::Options ring{
      .share = config.scheduling.share == config::Share::kTime ? Share::time : Share::jobs,
      .quantum = config.scheduling.quantum,
      .parallelism = workers};
  Lane lane("cpu", ring);
  Pool pool(lane);

  auto token = read_http_token(config.http);
  if (!token) {
    log->error("{}", token.error());
    return kExitConfig;
  }

  const auto made = HandlerSet::make(config, lane, ring, log);
  if (!made) {
    for (const std::string& problem : made.error()) log->error("{}", problem);
    return kExitConfig;
  }
  HandlerSet& handlers = **made;

  auto tls = load_tls(config);
  if (!tls) {
    for (const std::string& problem : tls.error()) log->error("{}", problem);
    return kExitConfig;
  }
  log_warnings(*tls, *log);

  // What is made and opened from here on is the user's; but for the ports, which are root's to bind.
  if (auto lowered = lower(*privileges, handlers, config); !lowered) {
    log->error("{}", lowered.error());
    return kExitUnavailable;
  }
  std::unique_ptr<Store> store;
  if (!config.store.path.empty()) {
    auto opened = Store::open(store_options(config), log);
    if (!opened) {
      log->error("{}", opened.error());
      return kExitUnavailable;
    }
    store = std::move(*opened);
  }

  asio::io_context io(1);  // one thread runs it: fewer locks
  Authenticator authenticator(io.get_executor());
  Server server({.io = io,
                 .handlers = handlers.directory(),
                 .lanes = handlers.lanes(),
                 .pool = pool,
                 .store = store.get(),
                 .authenticator = authenticator,
                 .log = log,
                 .version = kBuildVersion},
                config);

  HttpLogin http_login(
      authenticator,
      [&server](const std::string& name) -> std::optional<HttpUser> {
        const auto user = server.config().users.find(name);
        if (user == server.config().users.end()) return std::nullopt;
        return HttpUser{.hash = user->second.password_hash, .groups = user->second.commands};
      },
      [&server](const std::string& source) {
        server.stats().authentication_failures.add(1);
        server.warn_sometimes(Warning::kWrongPassword, source,
                              "wrong password or token by HTTP, or no such user");
      });
  http_login.set(config.http.login, *std::move(token));

  Health health(pool, lane);
  SchedulerMetrics scheduler_metrics(
      pool, lane, handlers.handlers(),
      {.deepest_batches = config.metrics.deepest_batches, .tenants = config.metrics.tenants});
  LiveHandlers live_handlers(
      {.io = io, .handlers = handlers, .server = server, .metrics = scheduler_metrics, .log = log});
  MetricsPage metrics;
  metrics.add([&](Families& families) { scheduler_metrics.read(families); });
  metrics.add([&](Families& families) { read_server_metrics(server.stats(), families); });
  metrics.add([&](Families& families) { read_limit_metrics(server.config(), families); });
  if (store != nullptr) metrics.add([&](Families& families) { read_store_metrics(*store, families); });
  metrics.add([](Families& families) { read_process_metrics(families); });
  metrics.add([](Families& families) { read_build_info(families); });
  Router router(&http_login);
  add_operator_pages(router, metrics, health);
  add_assets(router, dashboard_assets());
  Api api(server, health);
  api.add_to(router);
  HttpServer http(io, router);
  metrics.add([&](Families& families) { read_tls_metrics(server.tls(), http.tls(), families); });
  server.use_tls(std::move(tls->listen));
  http.use_tls(std::move(tls->http), server.handshakes());

  if (auto restored = server.batches().restore_all(); !restored) {
    log->error("{}", restored.error());
    return kExitUnavailable;
  }

  if (auto raised = privileges->raise(); !raised) {
    log->error("{}", raised.error());
    return kExitUnavailable;
  }
  // The HTTP side first: that a client can connect means that all is there.
  const auto http_at = http.listen(config.http.address, config.http.port);
  if (!http_at) {
    log->error("http: {}", http_at.error());
    return kExitUnavailable;
  }
  const auto listen_at = server.listen();
  if (!listen_at) {
    log->error("listen: {}", listen_at.error());
    return kExitUnavailable;
  }
  if (auto dropped = privileges->drop(); !dropped) {
    log->error("{}", dropped.error());
    return kExitUnavailable;
  }
  // One worker at least serves everybody.
  const std::uint32_t reserved = std::min(config.scheduling.reserved_workers, workers - 1);
  if (reserved != config.scheduling.reserved_workers) {
    log->warn("scheduling.reserved_workers is {}, but there are {} workers: {} reserved",
              config.scheduling.reserved_workers, workers, reserved);
  }
  pool.start(workers, reserved);
  handlers.processes().start();

  log->info("locksleyd {} ({}) listen={} http={} workers={} handlers={} config={} store={}", kBuildVersion,
            kBuildRevision, to_text(*listen_at), to_text(*http_at), workers,
            handlers.directory().entries().size(), config_file.empty() ? "(defaults)" : config_file,
            store == nullptr
                ? std::string("memory")
                : fmt::format("{} ({})", config.store.path, config::word_of(config.store.durability)));
  int exit_code = kExitSoftware;
  {
    Reconfiguration reconfiguration({.io = io,
                                     .pool = pool,
                                     .server = server,
                                     .handlers = handlers,
                                     .live_handlers = live_handlers,
                                     .metrics = scheduler_metrics,
                                     .log = log},
                                    config_file);
    server.on_config(
        {.reload = [&](auto done) { reconfiguration.reload(std::move(done)); },
         .set = [&](auto values, auto done) { reconfiguration.set(std::move(values), std::move(done)); }});
    reconfiguration.add_part([&](const config::Config& next) { return prepare_login(http_login, next); });
    reconfiguration.add_part(
        [&](const config::Config& next) { return prepare_tls(server, http, log, next); });
    Service service({.io = io,
                     .pool = pool,
                     .server = server,
                     .http = http,
                     .health = health,
                     .reconfiguration = reconfiguration,
                     .log = log});
    exit_code = service.run(fmt::format("ready listen={} http={}", to_text(*listen_at), to_text(*http_at)));
  }
  // Each worker ends the job that it runs; then nobody calls into the server any more, and what is left lets
  // go of its batches.
  handlers.processes().stop();
  {
    const LastWord last_word(store.get(), exit_code, log);
    pool.stop();
  }
  if (store != nullptr) store->stop();
  for (Lane* each : handlers.lanes()) each->ring().detach_all();
  log->info("ended exit_code={} connections={} batches={} lost_log_lines={}", exit_code,
            server.stats().connections_accepted.get(), server.batches_accepted(), lost_log_lines());
  return exit_code;
}

int repair(const config::Config& config) {
  if (config.store.path.empty()) {
    std::fputs("--repair: store.path is empty, so there is nothing to repair\n", stderr);
    return kExitConfig;
  }
  // Files that root makes, the daemon could not open.
  const auto privileges = Privileges::make(config.process);
  if (const auto dropped = privileges ? privileges->drop() : std::unexpected(privileges.error()); !dropped) {
    std::fprintf(stderr, "%s\n", dropped.error().c_str());
    return kExitConfig;
  }
  if (auto repaired = Store::repair(store_options(config)); !repaired) {
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
  config::Config config;
  if (const std::string& file = parsed.command_line->config_file; !file.empty()) {
    auto loaded = config::load_file(file);
    if (!loaded) {
      for (const config::Problem& problem : loaded.error()) {
        std::fprintf(stderr, "%s\n", config::to_string(problem).c_str());
      }
      return kExitConfig;
    }
    config = std::move(*loaded);
  }
  if (parsed.command_line->check_config) {
    std::fputs(config::dump(config).c_str(), stdout);
    return kExitOk;
  }
  if (parsed.command_line->repair) return repair(config);
  return serve(config, parsed.command_line->config_file);
}

}  // namespace
}  // namespace locksley::daemon

int main(int argc, char** argv) { return locksley::daemon::run(argc, argv); }
