#include "daemon/startup.h"

#include <fmt/format.h>
#include <malloc.h>
#include <pwd.h>
#include <spdlog/logger.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "config/validate.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/machine/cpu_count.h"
#include "daemon/base/machine/memory_size.h"
#include "daemon/base/net/endpoint_text.h"
#include "daemon/handler_set.h"
#include "daemon/privileges.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/engine/disk_space.h"
#include "daemon/store/postgres/postgres_engine.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

config::Machine this_machine(const config::Config& config) {
  namespace fs = std::filesystem;
  config::Machine machine{.memory = {usable_memory_bytes()}, .disk = {0}, .processors = usable_cpus()};
  if (config.store.path.empty() || config.store.engine != config::StoreEngine::kRocksdb) return machine;
  std::error_code failed;
  // The folder is made later: its space is that of the one above it that exists.
  fs::path place = fs::absolute(config.store.path, failed);
  while (!fs::exists(place, failed) && place != place.parent_path()) place = place.parent_path();
  const auto space = disk_space(place.string());
  if (!space) return machine;
  machine.disk.count = space->free_bytes;
  for (fs::directory_iterator file(config.store.path, failed), end; !failed && file != end;
       file.increment(failed)) {
    if (const auto size = file->file_size(failed); !failed) machine.disk.count += size;
    failed.clear();
  }
  return machine;
}

ExitCode exit_code_of(const StoreRefusal& refusal) { return refusal.lasts ? kExitStore : kExitUnavailable; }

std::optional<std::string> why_not_as_root(const config::Store& store, std::string_view option) {
  struct stat folder{};
  if (store.engine != config::StoreEngine::kRocksdb || ::geteuid() != 0) return std::nullopt;
  if (::stat(store.path.c_str(), &folder) != 0 || folder.st_uid == 0) return std::nullopt;
  const passwd* const owner = ::getpwuid(folder.st_uid);
  const std::string name = owner == nullptr ? std::to_string(folder.st_uid) : owner->pw_name;
  return fmt::format(
      "{}: {} belongs to {}: run this as that user, for example with `runuser -u {} -- locksleyd …`", option,
      store.path, name, name);
}

WorkerCounts worker_counts(const config::Config& config, spdlog::logger& log) {
  const std::uint32_t workers = config.pool.workers != 0 ? config.pool.workers : usable_cpus();
  const std::uint32_t wanted = config.scheduling.reserved_workers;
  const std::uint32_t reserved = std::min(wanted, workers - 1);
  if (reserved != wanted) {
    LogLine("scheduling.reserved_workers leaves no worker for other batches: fewer are reserved")
        .with("wanted", wanted)
        .with("workers", workers)
        .with("reserved", reserved)
        .write(log, spdlog::level::warn);
  }
  return {.workers = workers, .reserved = reserved};
}

FairRing::Options ring_options(const config::Config& config, std::uint32_t workers) {
  return {.share = config.scheduling.share == config::Share::kTime ? Share::kTime : Share::kJobs,
          .quantum = config.scheduling.quantum,
          .parallelism = workers};
}

void raise_descriptor_limit(std::uint64_t clients, spdlog::logger& log) {
  constexpr rlim_t kOthers = 128;  // guess: listening sockets, the store's files, pipes to programs
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < clients + kOthers) {
    LogLine("the process may not have as many descriptors as limits.max_clients needs")
        .with("max_clients", clients)
        .with("descriptors", limit.rlim_cur)
        .write(log, spdlog::level::warn);
  }
}

void tune_heap() {
  // From this size on an allocation is a mapping of its own, which grows by moving pages instead of
  // copying bytes: lists of millions of payloads. Without this call the limit would rise to 32 MiB.
  // Blocks of 1 MiB, which are used again and again, stay below it.
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 8 << 20);  // twice as much, as malloc would have it
  // What is freed joins its neighbours at once. Small pieces would be kept apart until the next
  // allocation of more than 1 KiB, which then joins all of them: 15 ms of the I/O thread after
  // 100,000 subscriptions have ended.
  ::mallopt(M_MXFAST, 0);
}

std::expected<void, std::string> drop_privileges(const Privileges& privileges, HandlerSet& handlers,
                                                 const config::Config& config) {
  if (!privileges.will_drop()) return {};
  auto kept = handlers.processes().keep_root_for_others({privileges.user(), privileges.group()},
                                                        handlers.program_users());
  if (!kept) return kept;
  if (!config.store.path.empty() && config.store.engine == config::StoreEngine::kRocksdb) {
    if (auto made = privileges.make_folder(config.store.path); !made) return made;
  }
  return privileges.drop();
}

namespace {

// The name of this machine.
std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// With the name of this machine in place of an address that stands for all.
std::string reachable(const asio::ip::tcp::endpoint& bound) {
  return bound.address().is_unspecified() ? fmt::format("{}:{}", machine_name(), bound.port())
                                          : to_text(bound);
}

}  // namespace

void end_without_replies(spdlog::logger& log) {
  log.flush();
  std::_Exit(kExitUnavailable);
}

std::expected<Ports, std::string> bind_ports(const config::Config& config) {
  auto http = in_section("http", BoundPort::bind(config.http.address, config.http.port, "http.port"));
  if (!http) return std::unexpected(std::move(http.error()));
  auto listen =
      in_section("listen", BoundPort::bind(config.listen.address, config.listen.port, "listen.port"));
  if (!listen) return std::unexpected(std::move(listen.error()));
  Ports ports{.http = *std::move(http), .listen = *std::move(listen), .workers = std::nullopt};
  if (config::serves_remote_workers(config)) {
    auto workers =
        in_section("workers", BoundPort::bind(config.workers.address, config.workers.port, "workers.port"));
    if (!workers) return std::unexpected(std::move(workers.error()));
    ports.workers = *std::move(workers);
  }
  return ports;
}

std::string cluster_name(const config::Config& config) {
  return config.cluster.name.empty() ? machine_name() : config.cluster.name;
}

std::string cluster_wire(const config::Config& config, const Ports& ports) {
  if (!config.cluster.advertise.empty()) return config.cluster.advertise;
  return reachable(ports.listen.endpoint());
}

std::string cluster_workers(const config::Config& config, const asio::ip::tcp::endpoint& bound) {
  const config::Cluster& cluster = config.cluster;
  if (!cluster.advertise_workers.empty()) return cluster.advertise_workers;
  if (cluster.advertise.empty()) return reachable(bound);
  return cluster.advertise.substr(0, cluster.advertise.rfind(':') + 1) + std::to_string(bound.port());
}

Store::Options store_options(const config::Config& config, const ClusterParts& cluster,
                             const std::shared_ptr<spdlog::logger>& log) {
  Store::Options options{
      .path = config.store.path, .durability = config.store.durability, .engine = embedded_engine()};
  if (config.store.engine == config::StoreEngine::kPostgresql) {
    options.engine = postgres_engine({.url = config.store.url,
                                      .replication = config.store.replication,
                                      .name = cluster.name,
                                      .wire = cluster.wire,
                                      .workers = cluster.workers,
                                      .cluster = cluster.board,
                                      .stand_by = cluster.stand_by,
                                      .followed_kinds = {kRecoveredKinds.begin(), kRecoveredKinds.end()},
                                      .on_fenced = [log] { end_without_replies(*log); }});
  }
  return options;
}

std::expected<std::unique_ptr<Store>, StoreRefusal> open_store(const config::Config& config,
                                                               const ClusterParts& cluster,
                                                               const std::shared_ptr<spdlog::logger>& log) {
  if (config.store.engine != config::StoreEngine::kPostgresql) {
    ClusterView view;
    view.nodes.push_back(ClusterBoard::alone(cluster.name, cluster.wire, cluster.workers));
    cluster.board->set(std::move(view));
  }
  if (!config::has_store(config.store)) return nullptr;
  return Store::open(store_options(config, cluster, log), log);
}

}  // namespace locksley::daemon
