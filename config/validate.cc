// Length: a function for each check of values that must agree with each other.
#include "config/validate.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "config/keys.h"
#include "config/lanes.h"
#include "config/rule_checker.h"
#include "config/schema.h"
#include "config/words.h"

namespace locksley::config {
namespace {

// The path with links resolved, as far as its folders exist.
std::filesystem::path real_path(const std::string& name) {
  std::error_code failed;
  std::filesystem::path path = std::filesystem::absolute(name, failed);
  if (failed) path = name;
  if (std::filesystem::path real = std::filesystem::weakly_canonical(path, failed); !failed) path = real;
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();  // it ended with '/'
}

// Whether it is that folder, or below it.
bool lies_in(const std::string& name, const std::string& folder) {
  const std::filesystem::path path = real_path(name);
  const std::filesystem::path above = real_path(folder);
  return std::ranges::mismatch(path, above).in2 == above.end();
}

// Checks values that must agree with each other.
class CrossChecker {
 public:
  CrossChecker(const Config& config, const Origins& origins, std::vector<Problem>& problems)
      : config_(config), origins_(origins), problems_(problems) {}

  void check() {
    check_sockets();
    check_workers();
    check_limits();
    check_store();
    for (const auto& [name, lane] : config_.lanes) check_lane("lanes." + name, name, lane);
    check_handlers_of_lanes();
    for (const auto& [name, handler] : config_.handlers) check_handler("handlers." + name, handler);
    for (const auto& [name, user] : config_.users) {
      if (user.password_hash.empty() && user.certificate.empty()) {
        report("users." + name, {"users." + name + ".password_hash", "users." + name + ".certificate"},
               "a password_hash or a certificate", "none");
      }
    }
    check_exec();
    check_certificates();
    check_http_login();
    check_upstream();
  }

 private:
  void check_exec() {
    if (!config_.exec.is_on) return;
    if (!config_.users.empty()) {
      report("exec", {"exec", "users"},
             "exec: false if there are users, because each of them could run any command as the daemon's "
             "user",
             "true");
    }
    const std::string path = "handlers." + std::string(kExecHandler);
    if (config_.handlers.contains(std::string(kExecHandler))) {
      report(path, {path, "exec"}, "another name, because exec: true makes a handler of this one",
             in_quotes(kExecHandler));
    }
  }

  // A certificate that belongs to two users would log in only one of the two.
  void check_certificates() {
    std::map<std::string_view, std::string> paths;  // by common name
    for (const auto& [name, user] : config_.users) {
      if (user.certificate.empty()) continue;
      const std::string path = "users." + name + ".certificate";
      const auto [other, is_new] = paths.emplace(user.certificate, path);
      if (is_new) continue;
      report(path, {path, other->second}, "a common name that no other user has",
             shown(user.certificate) + ", as in " + other->second);
    }
  }

  void check_sockets() {
    const Listen& listen = config_.listen;
    const Http& http = config_.http;
    if (listen.port != 0 && listen.port == http.port && listen.address == http.address) {
      report("http.port", {"http.port", "http.address", "listen.port", "listen.address"},
             "another port than listen.port, on the same address", shown(std::uint64_t{http.port}));
    }
    check_tls("listen.tls", listen.tls);
    check_tls("http.tls", http.tls);
    check_tls("workers.tls", config_.workers.tls);
    check_workers_port();
  }

  void check_workers_port() {
    const Workers& workers = config_.workers;
    if (!serves_remote_workers(config_)) return;
    const auto is_same = [&](const auto& other) {
      return workers.port != 0 && workers.port == other.port && workers.address == other.address;
    };
    if (is_same(config_.listen) || is_same(config_.http)) {
      report(
          "workers.port",
          {"workers.port", "workers.address", "listen.port", "listen.address", "http.port", "http.address"},
          "another port than those of listen and http, on the same address",
          shown(std::uint64_t{workers.port}));
    }
    const bool is_loopback = workers.address == "::1" || workers.address.starts_with("127.");
    if (!is_loopback && workers.tls.certificate.empty() && workers.insecure == Plain::kOnThisMachine) {
      report("workers.tls", {"workers.address", "workers.tls.certificate", "workers.insecure"},
             "a certificate, because payloads and results pass the network; or insecure: true if no "
             "other machine can read them",
             "none with the address " + shown(workers.address));
    }
  }

  void check_store() {
    const Store& store = config_.store;
    if (store.engine == StoreEngine::kPostgresql && store.url.empty()) {
      report("store.url", {"store.url", "store.engine"}, "the URL of the database, with engine: postgresql",
             "none");
    }
    if (store.engine == StoreEngine::kPostgresql && !store.backup_directory.empty()) {
      report("store.backup_directory", {"store.backup_directory", "store.engine"},
             "engine: rocksdb together with a backup_directory", "engine: postgresql");
    }
    if (store.engine == StoreEngine::kPostgresql) return;
    if (!store.url.empty()) {
      report("store.url", {"store.url", "store.engine"}, "engine: postgresql together with a URL",
             "engine: rocksdb, which is in a folder");
    }
    if (store.replication != Replication::kRequired) {
      report("store.replication", {"store.replication", "store.engine"},
             "engine: postgresql together with replication", "engine: rocksdb, which is in a folder");
    }
    if (!store.path.empty() && !store.backup_directory.empty() &&
        lies_in(store.backup_directory, store.path)) {
      report("store.backup_directory", {"store.backup_directory", "store.path"},
             "a folder outside of store.path, for example beside it, because the store's folder is for its "
             "own files",
             shown(store.backup_directory));
    }
  }

  void check_tls(const std::string& path, const Tls& tls) {
    if (tls.certificate.empty() != tls.key.empty()) {
      report(path, {path + ".certificate", path + ".key"}, "certificate and key together",
             tls.key.empty() ? "certificate alone" : "key alone");
    } else if (tls.certificate.empty() && !tls.client_ca.empty()) {
      report(path, {path + ".certificate", path + ".key", path + ".client_ca"},
             "certificate and key together with client_ca", "client_ca alone");
    }
  }

  void check_http_login() {
    const Http& http = config_.http;
    if (http.login == HttpLogin::kUsers && config_.users.empty() && http.token_file.empty()) {
      report("http.login", {"http.login", "http.token_file", "users"},
             "users or http.token_file as well, because otherwise no client could log in", "neither");
    }
    if (http.login == HttpLogin::kNone && !http.token_file.empty()) {
      report("http.token_file", {"http.token_file", "http.login"},
             "http.login: users together with a token file", "login: none, which asks for no password");
    }
  }

  void check_upstream() {
    const Upstream& upstream = config_.upstream;
    const std::string path = "upstream";
    if (upstream.url.empty()) {
      if (upstream != Upstream{}) report(path, {path + ".url"}, "url with the other keys", "none");
      return;
    }
    if (upstream.cert_file.empty() != upstream.key_file.empty()) {
      report(path, {path + ".cert_file", path + ".key_file"}, "cert_file and key_file together",
             upstream.key_file.empty() ? "cert_file alone" : "key_file alone");
    }
    if (!upstream.url.contains("://")) return;  // the key's rule has reported it
    const std::vector<std::string_view> addresses = hosts_and_ports_of(upstream.url);
    for (const std::string_view address : addresses) {
      if (is_host_and_port(address)) continue;
      report(
          path + ".url", {path + ".url"},
          "addresses separated by commas, each HOST, HOST:PORT or [IPV6]:PORT, after one scheme and one user",
          shown(std::string(address)));
    }
    if (upstream.url.starts_with("rediss://")) return;
    if (!upstream.ca_file.empty() || !upstream.cert_file.empty()) {
      report(path + ".url", {path + ".url", path + ".ca_file", path + ".cert_file"},
             "rediss:// if there is a ca_file or a cert_file", shown(upstream.url));
    } else if (upstream.insecure == Insecure::kNo && !std::ranges::all_of(addresses, is_of_this_machine)) {
      report(path + ".url", {path + ".url", path + ".insecure"},
             "rediss:// for another machine, or insecure: true, because payloads and the password would not "
             "be encrypted",
             shown(upstream.url));
    }
  }

  void check_workers() {
    const std::uint64_t workers = config_.pool.workers;
    const std::uint64_t reserved = config_.scheduling.reserved_workers;
    if (workers != 0 && reserved >= workers) {
      report("scheduling.reserved_workers", {"scheduling.reserved_workers", "pool.workers"},
             "less than pool.workers (" + std::to_string(workers) + ")", shown(reserved));
    }
  }

  // A payload or a batch above the second limit could never be accepted, yet the daemon would
  // answer "try again" each time.
  void check_limits() {
    const Limits& limits = config_.limits;
    at_most("limits.max_payload", limits.max_payload, "limits.max_command", limits.max_command);
    if (!limits.max_queued_bytes.is_auto) {
      at_most("limits.max_payload", limits.max_payload, "limits.max_queued_bytes",
              Bytes{limits.max_queued_bytes.count});
    }
    at_most("limits.max_batch_jobs", limits.max_batch_jobs, "limits.max_queued_jobs", limits.max_queued_jobs);
  }

  void check_lane(const std::string& path, const std::string& name, const Lane& lane) {
    if (name == kPoolLane) {
      report(path, {path}, "another name, because this is the name of the pool's lane", in_quotes(name));
    }
    if (lane.slots.count == 0) report(path, {path + ".slots"}, "slots", "none");
    std::set<std::string_view> names;
    for (const std::string& slot : lane.slots.names) {
      if (names.insert(slot).second) continue;
      report(path + ".slots", {path + ".slots"}, "names that differ from each other",
             in_quotes(slot) + " twice");
    }
  }

  void check_handlers_of_lanes() {
    std::map<std::string, std::size_t> handlers;
    for (const auto& [name, handler] : config_.handlers) {
      if (!is_in_lane_of_processes(handler) || ++handlers[lane_of(handler)] != kMostHandlersOfLane + 1)
        continue;
      report("handlers." + name, {"handlers"},
             "at most " + std::to_string(kMostHandlersOfLane) + " handlers in lane " + lane_of(handler),
             "one more");
    }
  }

  void check_lane_of(const std::string& path, const Handler& handler) {
    const std::string& lane = handler.lane;
    if (lane.empty() || lane == kProcessesLane || config_.lanes.contains(lane)) return;
    report(path + ".lane", {path + ".lane", "lanes"},
           lane == kPoolLane ? "a lane of processes, and not the pool's lane" : "a lane of the section lanes",
           in_quotes(lane));
  }

  void check_handler(const std::string& path, const Handler& handler) {
    const bool has_command = !handler.command.empty();
    const bool has_worker = !handler.worker.empty();
    const bool has_plugin = !handler.plugin.empty();
    const int kinds = int{has_command} + int{has_worker} + int{has_plugin};
    const bool is_remote = handler.remote == Remote::kYes;
    if (kinds > 1 || (kinds == 0 && !is_remote)) {
      report(path, {path + ".command", path + ".worker", path + ".plugin", path + ".remote"},
             "exactly one of command, worker and plugin", kinds == 0 ? "none" : std::to_string(kinds));
      return;
    }
    if (!is_remote && handler.max_running != 0) {
      report(path + ".max_running", {path + ".max_running", path + ".remote"},
             "max_running with remote: true only", "it without");
    }
    if (has_plugin && handler.isolate == Isolate::kNo && handler.max_running != 0) {
      report(path + ".max_running", {path + ".max_running", path + ".plugin", path + ".isolate"},
             "max_running without a plugin, or with one that is isolated", "a plugin that is not");
    }
    // Batches count the limit in milliseconds; less than one would be no limit at all.
    if (handler.timeout % std::chrono::milliseconds(1) != Duration(0)) {
      report(path + ".timeout", {path + ".timeout"}, "whole milliseconds", shown(handler.timeout));
    }
    check_program(path + ".command", handler.command);
    check_program(path + ".worker", handler.worker);
    check_lane_of(path, handler);
    check_keys_of_kind(path, handler);
    if (handler.limits.cpu % std::chrono::seconds(1) != Duration(0)) {
      report(path + ".limits.cpu", {path + ".limits.cpu"}, "whole seconds", shown(handler.limits.cpu));
    }
    check_input(path, handler);
  }

  // Keys that have no effect on handlers of this kind.
  void check_keys_of_kind(const std::string& path, const Handler& handler) {
    const bool has_command = !handler.command.empty();
    const bool has_worker = !handler.worker.empty();
    const bool has_plugin = !handler.plugin.empty();
    const bool runs_processes = config::runs_processes(handler);
    const bool runs_workers = runs_processes && !has_command;
    const std::string_view kind = has_command      ? "a command"
                                  : has_worker     ? "a worker"
                                  : !has_plugin    ? "a handler that only remote workers run"
                                  : runs_processes ? "an isolated plugin"
                                                   : "a plugin that is not isolated";
    const Handler usual;
    const auto refuse = [&](std::string_view key, bool is_usual, bool has_effect, std::string_view takers) {
      if (is_usual || has_effect) return;
      const std::string key_path = dotted(path, key);
      report(key_path, {key_path}, std::string(key) + " with " + std::string(takers) + " only",
             "it with " + std::string(kind));
    };
    const std::string_view processes = "a command, a worker or an isolated plugin";
    refuse("lane", handler.lane == usual.lane, runs_processes, processes);
    refuse("concurrency", handler.concurrency == usual.concurrency, runs_processes, processes);
    refuse("rate", handler.rate == usual.rate, runs_processes, processes);
    refuse("directory", handler.directory == usual.directory, runs_processes, processes);
    refuse("environment", handler.environment == usual.environment, runs_processes, processes);
    refuse("user", handler.user == usual.user, runs_processes, processes);
    refuse("max_output", handler.max_output == usual.max_output,
           runs_processes || handler.remote == Remote::kYes,
           "a command, a worker, an isolated plugin or remote: true");
    refuse("grace", handler.grace == usual.grace, runs_processes, processes);
    refuse("confine", handler.confine == usual.confine, runs_processes, processes);
    refuse("limits", handler.limits == usual.limits, runs_processes, processes);
    refuse("max_jobs", handler.max_jobs == usual.max_jobs, runs_workers, "a worker or an isolated plugin");
    refuse("worker_protocol", handler.worker_protocol == usual.worker_protocol, has_worker, "a worker");
    refuse("max_memory", handler.max_memory == usual.max_memory, runs_workers,
           "a worker or an isolated plugin");
    refuse("isolate", handler.isolate == usual.isolate, has_plugin, "a plugin");
  }

  void check_input(const std::string& path, const Handler& handler) {
    if (handler.input == Input::kStdin) return;
    if (handler.command.empty()) {
      report(path + ".input", {path + ".input"}, "input with a command only",
             in_quotes(word_of(handler.input)));
    } else if (std::ranges::none_of(handler.command, [](const std::string& argument) {
                 return argument.find("{}") != std::string::npos;
               })) {
      report(path + ".command", {path + ".command", path + ".input"},
             "{} in an argument, because input is " + std::string(word_of(handler.input)), "none");
    }
  }

  void check_program(const std::string& path, const std::vector<std::string>& arguments) {
    if (!arguments.empty() && arguments.front().empty()) {
      report(path, {path}, "the name of a program first", in_quotes(""));
    }
  }

  template <class T>
  void at_most(const std::string& path, const T& value, const std::string& limit_path, const T& limit) {
    if (limit < value)
      report(path, {path, limit_path}, "at most " + limit_path + " (" + unquoted(limit) + ")", shown(value));
  }

  static std::string unquoted(std::uint64_t value) { return std::to_string(value); }
  static std::string unquoted(Bytes value) { return to_string(value); }

  // `keys`: the keys that the check compared. If one of them is wrong by itself, the check compared
  // a default in its place, so there is nothing to report.
  void report(const std::string& path, std::initializer_list<std::string> keys, const std::string& expected,
              const std::string& found) {
    for (const std::string& key : keys) {
      const auto origin = origins_.find(key);
      if (origin != origins_.end() && !origin->second.is_valid) return;
    }
    problems_.push_back({"", 0, 0, path, "expected " + expected + ", found " + found, ""});
    place(problems_.back(), keys);
  }

  // The key itself, or else the first of the others that the file has.
  void place(Problem& problem, std::initializer_list<std::string> keys) const {
    auto origin = origins_.find(problem.key);
    for (auto key = keys.begin(); origin == origins_.end() && key != keys.end(); ++key) {
      origin = origins_.find(*key);
    }
    if (origin == origins_.end()) return;
    problem.line = origin->second.position.line;
    problem.column = origin->second.position.column;
  }

  const Config& config_;
  const Origins& origins_;
  std::vector<Problem>& problems_;
};

bool is_set(const Origins& origins, std::string_view key) { return origins.contains(key); }

template <class T>
void settle(T& inner, bool is_inner_set, T& outer, bool is_outer_set) {
  if (!is_inner_set) {
    inner = std::min(inner, outer);
  } else if (!is_outer_set) {
    outer = std::max(inner, outer);
  }
}

}  // namespace

void settle_limits(Limits& limits, const Origins& origins) {
  const bool has_payload = is_set(origins, "limits.max_payload");
  settle(limits.max_payload, has_payload, limits.max_command, is_set(origins, "limits.max_command"));
  // `auto` follows max_payload by itself (auto_limits.h).
  if (!limits.max_queued_bytes.is_auto && !has_payload) {
    limits.max_payload = std::min(limits.max_payload, Bytes{limits.max_queued_bytes.count});
  }
  settle(limits.max_batch_jobs, is_set(origins, "limits.max_batch_jobs"), limits.max_queued_jobs,
         is_set(origins, "limits.max_queued_jobs"));
}

void settle_users(Config& config) {
  for (auto& [name, handler] : config.handlers) {
    if (runs_processes(handler) && handler.user.empty()) handler.user = config.process.user;
  }
}

bool has_store(const Store& store) { return store.engine == StoreEngine::kPostgresql || !store.path.empty(); }

bool serves_remote_workers(const Config& config) {
  return std::ranges::any_of(config.handlers,
                             [](const auto& entry) { return entry.second.remote == Remote::kYes; });
}

std::vector<Problem> check(const Config& config, const Origins& origins) {
  std::vector<Problem> problems;
  RuleChecker rules(origins, problems);
  visit_keys(rules, config);
  CrossChecker(config, origins, problems).check();
  return problems;
}

}  // namespace locksley::config
