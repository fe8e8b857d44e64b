// What main() needs to build the parts of the daemon, and to end when one of them cannot be built.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/auto_limits.h"
#include "config/config.h"
#include "core/lane/lane.h"
#include "daemon/base/exit_codes.h"
#include "daemon/base/net/bound_port.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/store.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class HandlerSet;
class Privileges;

// The daemon cannot start. Thrown while main() builds the parts, and caught in one place, which
// logs the problems and ends with the exit code; the parts that are built are destroyed in reverse
// on the way.
class StartFailure : public std::exception {
 public:
  StartFailure(ExitCode exit_code, std::vector<std::string> problems)
      : exit_code_(exit_code), problems_(std::move(problems)) {}
  StartFailure(ExitCode exit_code, std::string problem)
      : StartFailure(exit_code, std::vector{std::move(problem)}) {}

  const char* what() const noexcept override { return "the daemon cannot start"; }
  ExitCode exit_code() const { return exit_code_; }
  // One sentence each.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  ExitCode exit_code_;
  std::vector<std::string> problems_;
};

// The memory and the processors that the process may use, and the space that the store may fill;
// limits that are `auto` follow from them. That space is the free space of the file system of the
// store's folder, plus the bytes that the store takes already. Reads that folder.
config::Machine this_machine(const config::Config& config);

// kExitStore if starting again does not help, else kExitUnavailable.
ExitCode exit_code_of(const StoreRefusal& refusal);

// The value, or StartFailure with the error, which is a sentence or several.
template <class Value, class Error>
Value or_fail(std::expected<Value, Error> result, ExitCode exit_code) {
  if (!result) throw StartFailure(exit_code, std::move(result.error()));
  if constexpr (!std::is_void_v<Value>) return *std::move(result);
}

// The same with an error of the store. The exit code is kExitStore if starting again does not help.
template <class Value>
Value or_fail(std::expected<Value, StoreRefusal> result) {
  if (!result) {
    throw StartFailure(exit_code_of(result.error()), std::move(result.error().what));
  }
  if constexpr (!std::is_void_v<Value>) return *std::move(result);
}

// The error with the section of the configuration in front.
template <class Value>
std::expected<Value, std::string> in_section(std::string_view section,
                                             std::expected<Value, std::string> result) {
  if (!result) result.error().insert(0, std::string(section) + ": ");
  return result;
}

// How many workers the pool has, and how many of them are reserved for batches whose jobs are
// brief; at least one worker serves all batches. Logs a warning if the configuration reserves more.
struct WorkerCounts {
  std::uint32_t workers;
  std::uint32_t reserved;
};
WorkerCounts worker_counts(const config::Config& config, spdlog::logger& log);

// Why this process must not write to the store, for the option that would: it is root, and the
// store is of another user, who could not open root's files later. None: it may.
std::optional<std::string> why_not_as_root(const config::Store& store, std::string_view option);

// What the rings of all lanes have in common.
FairRing::Options ring_options(const config::Config& config, std::uint32_t workers);

// Allows the process as many descriptors as the system does: each client takes one. Logs a warning
// if these are too few.
void raise_descriptor_limit(std::uint64_t clients, spdlog::logger& log);

// Sets how glibc's malloc() gets memory from the system, and how much freed memory it keeps. Before
// there are other threads.
void tune_heap();

// Makes what only root can make, as far as the configuration asks for it: the keeper, if programs
// run as other users, and the folder of the store. Then gives root up for good.
std::expected<void, std::string> drop_privileges(const Privileges& privileges, HandlerSet& handlers,
                                                 const config::Config& config);

// Another daemon has the batches now, or may have them. This one must send no client any reply: it
// ends as if it were killed, and the service manager starts it again, as the second. Any thread.
[[noreturn]] void end_without_replies(spdlog::logger& log);

// The ports for clients, and where they are. Bound, and not listening.
struct Ports {
  BoundPort http;
  BoundPort listen;
  std::optional<BoundPort> workers;  // if a handler is remote
};
// The error names the section of the configuration and the address.
std::expected<Ports, std::string> bind_ports(const config::Config& config);

// The name of this daemon among those on the same database: cluster.name, or the name of the
// machine. And the address to which others send clients: cluster.advertise, or where it listens,
// with the name of the machine in place of an address that stands for all.
std::string cluster_name(const config::Config& config);
std::string cluster_wire(const config::Config& config, const Ports& ports);
// The same for remote workers: cluster.advertise_workers, or the host of cluster.advertise, or
// where `bound` is.
std::string cluster_workers(const config::Config& config, const asio::ip::tcp::endpoint& bound);

// How the store presents this daemon to the others on the same database, and the board on which it
// shows the others.
struct ClusterParts {
  std::string name;
  std::string wire;
  std::string workers = {};  // empty: no handler is for remote workers
  std::shared_ptr<ClusterBoard> board;
  // As PostgresOptions::stand_by.
  std::function<bool(std::chrono::milliseconds)> stand_by;
};

// The one place that knows which engine the store has.
Store::Options store_options(const config::Config& config, const ClusterParts& cluster,
                             const std::shared_ptr<spdlog::logger>& log);
// Null: the configuration names no store.
// Where other daemons can have the store, too, this waits until this daemon is the active one.
std::expected<std::unique_ptr<Store>, StoreRefusal> open_store(const config::Config& config,
                                                               const ClusterParts& cluster,
                                                               const std::shared_ptr<spdlog::logger>& log);

}  // namespace locksley::daemon
