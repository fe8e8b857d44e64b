#include "daemon/migrate_program.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "config/validate.h"
#include "daemon/base/exit_codes.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/privileges.h"
#include "daemon/startup.h"
#include "daemon/store/migration/migration.h"
#include "daemon/store/postgres/postgres_engine.h"

namespace locksley::daemon {
namespace {

namespace fs = std::filesystem;

constexpr auto kReportPeriod = std::chrono::seconds(2);
constexpr const char* kAgain = "run the same command again: it goes on where it was";

bool is_of_server(const config::Store& store) { return store.engine == config::StoreEngine::kPostgresql; }

// Without a password.
std::string place_of(const config::Store& store) {
  return is_of_server(store) ? postgres_place(store.url) : store.path;
}

bool are_one(const config::Store& a, const config::Store& b) {
  if (a.engine != b.engine) return false;
  std::error_code ignored;
  return is_of_server(a) ? a.url == b.url
                         : fs::weakly_canonical(a.path, ignored) == fs::weakly_canonical(b.path, ignored);
}

// What an operator writes into the configuration to go on with this store.
std::string keys_of(const config::Store& store) {
  if (!is_of_server(store)) return fmt::format("store: {{engine: rocksdb, path: {}}}", store.path);
  return fmt::format("store: {{engine: postgresql, url: {}}}, with the URL as it was given here",
                     postgres_place(store.url));
}

// Waits for signals, on a thread of its own: with the second one the process ends at once, as by
// kill -9.
class StopSignals {
 public:
  explicit StopSignals(spdlog::logger& log) : log_(log), signals_(io_, SIGINT, SIGTERM) {
    wait();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~StopSignals() {
    io_.stop();
    thread_.join();
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The first signal; 0: there was none.
  int received() const { return received_; }

 private:
  void wait() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      if (received_.exchange(signal) != 0) std::_Exit(128 + signal);
      LogLine("migration: stops after this group; a second signal ends it at once")
          .write(log_, spdlog::level::info);
      wait();
    });
  }

  spdlog::logger& log_;
  asio::io_context io_{1};
  asio::signal_set signals_;
  std::atomic<int> received_{0};  // its thread writes it; a thread that reads 0 reads again soon
  std::thread thread_;
};

// A message that names the folder later is read in another one.
config::Store with_whole_path(config::Store store) {
  if (!is_of_server(store) && !store.path.empty()) {
    std::error_code failed;
    const fs::path whole = fs::absolute(store.path, failed);
    if (!failed) store.path = whole.lexically_normal().string();
  }
  return store;
}

// Of the configuration's process, which made the files of the store.
void take_user(const config::Config& config, const config::Store& target) {
  const Privileges privileges = or_fail(Privileges::make(config.process), kExitConfig);
  if (privileges.will_drop() && !is_of_server(target)) {
    or_fail(privileges.make_folder(target.path), kExitUnavailable);
  }
  or_fail(privileges.drop(), kExitUnavailable);
}

void require_owner(const config::Store& store, const char* option) {
  if (auto why = why_not_as_root(store, option)) throw StartFailure(kExitUnavailable, *std::move(why));
}

std::unique_ptr<Engine> open_engine(config::Config config, const config::Store& store,
                                    const std::shared_ptr<spdlog::logger>& log) {
  config.store = store;
  // Without `stand_by`: a daemon that has it is an error.
  const Store::Options options = store_options(config,
                                               {.name = cluster_name(config) + " (migration)",
                                                .wire = "a migration of the store",
                                                .board = {},
                                                .stand_by = {}},
                                               log);
  return or_fail(options.engine({options.path, options.durability, log}));
}

void require_store(const config::Store& store, const char* option) {
  if (!config::has_store(store)) {
    throw StartFailure(kExitConfig, fmt::format("{}: store.path is empty, so there is no store", option));
  }
  std::error_code ignored;
  if (!is_of_server(store) && !fs::is_directory(store.path, ignored)) {
    throw StartFailure(kExitUnavailable, fmt::format("{}: there is no store in {}", option, store.path));
  }
}

ExitCode exit_code_of(MigrationError::Kind kind) {
  switch (kind) {
    case MigrationError::Kind::kRefused:
    case MigrationError::Kind::kDifferent:
      return kExitDataError;
    case MigrationError::Kind::kFailed:
      return kExitIoError;
    case MigrationError::Kind::kLost:
      return kExitUnavailable;
  }
  return kExitSoftware;
}

// Logs now and then how far it is.
class Reporter {
 public:
  explicit Reporter(spdlog::logger& log) : log_(log) {}
  void report(const Migration::Progress& progress) {
    if (now() - reported_at_ < kReportPeriod) return;
    reported_at_ = now();
    constexpr std::array kTableNames{"index", "payloads", "results"};
    const bool copies = progress.phase == Migration::Phase::kCopying;
    LogLine(copies ? "migration: copies" : "migration: compares")
        .with("table", kTableNames[static_cast<std::size_t>(progress.table)])
        .with("rows", progress.rows)
        .with("bytes", progress.bytes)
        .write(log_, spdlog::level::info);
  }

 private:
  spdlog::logger& log_;
  Instant reported_at_ = now();
};

int end_of(const Migration& migration, Migration::Outcome outcome, const config::Store& source,
           const config::Store& target, int signal, spdlog::logger& log) {
  if (outcome == Migration::Outcome::kStopped) {
    LogLine(fmt::format("migration: stopped by a signal: {}", kAgain)).write(log, spdlog::level::info);
    return 128 + signal;
  }
  if (outcome == Migration::Outcome::kDone) {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
    for (const TableSum& sum : migration.sums()) {
      rows += sum.rows;
      bytes += sum.bytes;
    }
    LogLine("migration: finished").with("rows", rows).with("bytes", bytes).write(log, spdlog::level::info);
  }
  std::printf(
      "migrated: the store is in %s, and no daemon starts on %s any more. Go on with the same configuration "
      "and "
      "%s\n",
      place_of(target).c_str(), place_of(source).c_str(), keys_of(target).c_str());
  return kExitOk;
}

}  // namespace

std::expected<config::Store, std::string> store_at(const config::Store& settings, std::string_view target) {
  config::Store store = settings;
  if (target.starts_with("postgresql://") || target.starts_with("postgres://")) {
    store.engine = config::StoreEngine::kPostgresql;
    store.url = target;
    store.path = config::Store{}.path;
    // Whether the server replicates as the operator wants is for the daemon to check that starts on
    // it.
    store.replication = config::Replication::kNone;
    return store;
  }
  if (target.starts_with('/')) {
    store.engine = config::StoreEngine::kRocksdb;
    store.url.clear();
    store.path = target;
    return store;
  }
  return std::unexpected(fmt::format(
      "--migrate-to: expected postgresql://… or the absolute path of a folder, found '{}'", target));
}

int migrate(const config::Config& config, const std::string& target_text,
            const std::shared_ptr<spdlog::logger>& log) {
  std::signal(SIGPIPE, SIG_IGN);
  const config::Store source = with_whole_path(config.store);
  require_store(source, "--migrate-to");
  const config::Store target = or_fail(store_at(source, target_text), kExitUsage);
  if (are_one(source, target)) {
    throw StartFailure(kExitUsage, "--migrate-to: this is the store of the configuration itself");
  }
  take_user(config, target);
  require_owner(source, "--migrate-to");
  const StopSignals signals(*log);
  const std::unique_ptr<Engine> from = open_engine(config, source, log);
  const std::unique_ptr<Engine> to = open_engine(config, target, log);
  Reporter reporter(*log);
  Migration migration(*from, *to, log, [&](const Migration::Progress& progress) {
    reporter.report(progress);
    return signals.received() == 0;
  });
  const ThreadRoleScope role(kStoreWriter);
  const auto outcome = migration.run();
  if (outcome) return end_of(migration, *outcome, source, target, signals.received(), *log);
  const MigrationError& error = outcome.error();
  const bool goes_on = error.kind != MigrationError::Kind::kRefused;
  throw StartFailure(exit_code_of(error.kind),
                     goes_on ? fmt::format("{}; {}", error.what, kAgain) : error.what);
}

int undo_migration(const config::Config& config, const std::shared_ptr<spdlog::logger>& log) {
  std::signal(SIGPIPE, SIG_IGN);
  require_store(config.store, "--undo-migration");
  take_user(config, config.store);
  require_owner(config.store, "--undo-migration");
  const std::unique_ptr<Engine> engine = open_engine(config, config.store, log);
  const ThreadRoleScope role(kStoreWriter);
  or_fail(undo_migration(*engine), kExitUnavailable);
  std::printf(
      "usable again: %s is as it was when it was migrated; start no daemon on the other store any more\n",
      place_of(config.store).c_str());
  return kExitOk;
}

}  // namespace locksley::daemon
