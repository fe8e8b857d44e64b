#include "daemon/handler_set.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <utility>

#include "config/lanes.h"
#include "core/base/check.h"
#include "core/lane/lane_gates.h"
#include "core/lane/lane_view.h"
#include "daemon/base/machine/cpu_count.h"
#include "daemon/base/plugin/plugin_file.h"
#include "daemon/handlers/builtins.h"

namespace locksley::daemon {
namespace {

// In the pool: plugins that are not isolated.
bool runs_in_process(const config::Handler& settings) { return !config::is_in_lane_of_processes(settings); }

bool is_remote(const config::Handler& settings) { return settings.remote == config::Remote::kYes; }

// Whether the change loads another file, or the same file once more.
bool is_loaded_anew(const config::Handler* before, const config::Handler& after) {
  return before == nullptr || !runs_in_process(*before) || before->plugin != after.plugin;
}

const config::Handler* find(const std::map<std::string, config::Handler>& handlers, const std::string& name) {
  const auto found = handlers.find(name);
  return found == handlers.end() ? nullptr : &found->second;
}

template <class T>
void append(std::vector<T>& to, std::vector<T> more) {
  std::ranges::move(more, std::back_inserter(to));
}

std::expected<ProcessHandler, std::string> prepare(const std::string& name, const config::Handler& settings,
                                                   const KeeperUsers& users = {}) {
  auto made = prepare_process_handler(name, settings, users);
  if (!made || !settings.plugin.empty()) return made;
  if (auto found = made->program->look_up_file(name); !found) return std::unexpected(found.error());
  return made;
}

// What its entry has wherever its jobs run.
HandlerDirectory::Entry entry_of(Handler& handler, Lane& lane, GateId gate, const config::Handler& settings) {
  return {.handler = handler,
          .lane = lane,
          .gate = gate,
          .timeout = std::chrono::ceil<std::chrono::milliseconds>(settings.timeout),
          .retries = settings.retries,
          .is_remote = is_remote(settings),
          .max_output = is_remote(settings) ? settings.max_output.count : 0};
}

std::string name_is_taken(const std::string& name) {
  return fmt::format(
      "handlers.{}: a handler of this name is built in; give this one another, or let remote workers run it: "
      "remote: true",
      name);
}

}  // namespace

std::expected<HandlerChanges, HandlerProblems> prepare_handlers(
    const std::map<std::string, config::Handler>& before, const std::map<std::string, config::Handler>& after,
    const KeeperUsers& users) {
  HandlerChanges result;
  HandlerProblems problems;
  for (const auto& [name, settings] : before) {
    if (!after.contains(name)) result.changes[name] = {};
  }
  for (const auto& [name, settings] : after) {
    const config::Handler* const old = find(before, name);
    if (old != nullptr && *old == settings) continue;
    HandlerChanges::Change& change = result.changes[name];
    change.settings = settings;
    if (!config::runs_processes(settings)) continue;
    auto process = prepare(name, settings, users);
    if (process) {
      change.process = std::move(*process);
    } else {
      problems.push_back(std::move(process.error()));
    }
  }
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return result;
}

HandlerProblems find_problems(const std::map<std::string, config::Handler>& handlers) {
  HandlerProblems problems;
  std::set<std::string, std::less<>> built_in;
  for (const auto& handler : register_builtins()) built_in.insert(handler->name());
  for (const auto& [name, settings] : handlers) {
    if (built_in.contains(name) && !config::is_only_remote(settings)) {
      problems.push_back(name_is_taken(name));
    } else if (!settings.plugin.empty()) {
      if (const auto file = PluginFile::locate(settings.plugin); !file) {
        problems.push_back(fmt::format("handlers.{}.plugin: {}", name, file.error()));
      }
    } else if (config::is_only_remote(settings)) {
      continue;
    } else if (const auto process = prepare(name, settings); !process) {
      problems.push_back(process.error());
    }
  }
  return problems;
}

std::vector<std::string> warnings_about_handlers(const config::Config& config) {
  std::set<std::string, std::less<>> known;
  for (const auto& handler : register_builtins()) known.insert(handler->name());
  for (const auto& [name, handler] : config.handlers) known.insert(name);
  std::vector<std::string> warnings;
  const auto warn_of_unknown = [&](const std::string& key, const std::string& name) {
    warnings.push_back(fmt::format("{}: there is no handler '{}'", key, name));
  };
  bool offers_any = config.upstream.handlers.empty();
  for (const std::string& name : config.upstream.handlers) {
    if (known.contains(name)) {
      offers_any = true;
    } else if (name == config::kExecHandler && config.exec.is_on) {
      warnings.push_back(fmt::format(
          "upstream.handlers: '{}' runs no jobs of another daemon, which could run any command here", name));
    } else {
      warn_of_unknown("upstream.handlers", name);
    }
  }
  if (!offers_any) {
    warnings.emplace_back(
        "upstream.handlers: none of these handlers can run jobs of the upstream: it sends none");
  }
  for (const auto& [user, settings] : config.users) {
    for (const std::string& name : settings.handlers) {
      if (!known.contains(name)) warn_of_unknown("users." + user + ".handlers", name);
    }
  }
  // While such results come, no connection of a user alone has to give way (InputBudget).
  const config::Bytes most{
      std::min(config.workers.max_leased_bytes.count / 4, config.limits.max_command.count)};
  for (const auto& [name, handler] : config.handlers) {
    if (!is_remote(handler) || handler.max_output.count <= most.count) continue;
    warnings.push_back(
        fmt::format("handlers.{}.max_output: {} is more than {}, a quarter of workers.max_leased_bytes or "
                    "limits.max_command: while larger results come, other workers may have to connect again "
                    "and send theirs "
                    "again",
                    name, config::to_string(handler.max_output), config::to_string(most)));
  }
  return warnings;
}

std::vector<std::string> warnings_before_start(const config::Config& config) {
  std::vector<std::string> warnings = config::lane_warnings(config);
  append(warnings, warnings_about_handlers(config));
  if (!config.users.empty() && config.http.login == config::HttpLogin::kNone) {
    warnings.emplace_back(
        "http.login: none, though there are users: everyone who can reach http.address reads the names and "
        "numbers of all users at /metrics, and the dashboard serves no client; set http.login: users, and "
        "http.token_file for Prometheus");
  }
  const std::uint32_t workers = config.pool.workers != 0 ? config.pool.workers : usable_cpus();
  if (config.scheduling.reserved_workers >= workers) {
    warnings.push_back(
        fmt::format("scheduling.reserved_workers: {} of {} workers would leave none for other batches: {} "
                    "will be reserved",
                    config.scheduling.reserved_workers, workers, workers - 1));
  }
  // The user who checks the file need not be the one who starts the daemon, so this is no error.
  if (config.exec.is_on && config.process.user.empty() && ::geteuid() == 0) {
    const std::string name(config::kExecHandler);
    const auto exec = prepare(name, config::all_handlers(config, 1).at(name));
    if (!exec) warnings.push_back("started as root, the daemon will refuse this file: " + exec.error());
  }
  return warnings;
}

std::expected<std::unique_ptr<HandlerSet>, HandlerProblems> HandlerSet::make(
    const config::Config& config, Lane& cpu, const FairRing::Options& ring,
    std::shared_ptr<spdlog::logger> log) {
  std::unique_ptr<HandlerSet> set(new HandlerSet(cpu, ring, std::move(log)));
  set->builtins_ = register_builtins();
  for (const auto& handler : set->builtins_) {
    set->directory_.add({.handler = *handler, .lane = cpu, .kind = HandlerKind::kBuiltin});
  }
  const std::map<std::string, config::Handler> handlers = config::all_handlers(config, ring.parallelism);
  auto changes = prepare_handlers({}, handlers, {});
  HandlerChanges only_plugins;
  for (const auto& [name, settings] : handlers) {
    if (runs_in_process(settings)) only_plugins.changes[name].settings = settings;
  }
  auto loaded = set->load({}, changes ? *changes : only_plugins);
  HandlerProblems problems;
  if (!changes) problems = std::move(changes.error());
  if (!loaded) append(problems, std::move(loaded.error()));
  if (!problems.empty()) return std::unexpected(std::move(problems));
  set->set_lanes(config, ring.parallelism);
  for (auto& [name, change] : changes->changes) {
    if (change.process) {
      const SpawnRequest& request = change.process->program->request();
      set->program_users_.insert({request.user, request.group});
    }
    set->make(name, std::move(change));
  }
  set->is_started_ = true;
  return set;
}

bool HandlerSet::is_built_in(const std::string& name) const {
  return std::ranges::any_of(builtins_, [&name](const auto& builtin) { return builtin->name() == name; });
}

std::expected<void, HandlerProblems> HandlerSet::load(const std::map<std::string, config::Handler>& before,
                                                      HandlerChanges& changes) {
  HandlerProblems problems;
  std::map<std::string, config::Handler> to_load;
  for (const auto& [name, change] : changes.changes) {
    if (!change.settings) continue;
    if (runs_in_process(*change.settings)) {
      if (is_loaded_anew(find(before, name), *change.settings)) to_load.emplace(name, *change.settings);
    } else if (is_built_in(name) && !config::is_only_remote(*change.settings)) {
      problems.push_back(name_is_taken(name));
    }
  }
  // The jobs of such a handler are in this process, where nothing can be removed.
  for (const auto& [name, change] : changes.changes) {
    if (!is_built_in(name) || !is_started_) continue;
    problems.push_back(
        fmt::format("handlers.{}: whether a built-in handler is remote needs a restart", name));
  }
  append(problems, lanes_without_room(changes));
  auto loaded = load_plugins(to_load, builtins_);
  if (!loaded) append(problems, std::move(loaded.error()));
  if (!problems.empty()) return std::unexpected(std::move(problems));
  for (auto& plugin : *loaded) changes.changes[plugin->handler().name()].plugin = std::move(plugin);
  return {};
}

HandlerProblems HandlerSet::lanes_without_room(const HandlerChanges& changes) const {
  std::map<std::string, std::size_t> added;  // handlers, by lane
  for (const auto& [name, change] : changes.changes) {
    if (!change.settings || !config::is_in_lane_of_processes(*change.settings)) continue;
    const std::string to = config::lane_of(*change.settings);
    const ProcessLane* const lane = processes_.find(to);
    if (lane != nullptr && lane->find(name) == nullptr) ++added[to];
  }
  HandlerProblems problems;
  for (const auto& [lane, handlers] : added) {
    if (processes_.find(lane)->has_room_for(handlers)) continue;
    problems.push_back(
        fmt::format("lanes.{}: no room for {} more handlers, because removed ones still have batches there; "
                    "cancel these batches, or configure those handlers again",
                    lane, handlers));
  }
  return problems;
}

bool HandlerSet::needs_standstill(const std::string& name, const HandlerChanges::Change& change) const {
  const HandlerDirectory::Entry* const now = directory_.find_any(name);
  if (now == nullptr) return false;
  const bool is_new_gate = change.settings && runs_in_process(*change.settings) &&
                           is_remote(*change.settings) && !pool_gates_.contains(name);
  if (is_new_gate) return true;
  if (plugins_.contains(name)) {
    return !change.settings || !runs_in_process(*change.settings) || change.plugin != nullptr;
  }
  if (change.plugin != nullptr) return &now->lane != &cpu();
  if (!change.settings || !config::is_in_lane_of_processes(*change.settings)) return false;
  ProcessLane* const lane = processes_.find(config::lane_of(*change.settings));
  return lane == nullptr || &now->lane != &lane->lane();
}

void HandlerSet::set_lanes(const config::Config& config, std::uint32_t pool_workers) {
  const std::map<std::string, config::Lane> wanted = config::process_lanes(config, pool_workers);
  for (const auto& [name, settings] : wanted) {
    ProcessLane* lane = processes_.find(name);
    if (lane == nullptr) {
      lane = &processes_.add(name, ring_);
      lanes_.push_back(&lane->lane());
    }
    lane->set_slots(settings);
  }
  for (const Lane* const lane : lanes_) {
    if (lane != &cpu() && !wanted.contains(lane->name())) processes_.find(lane->name())->set_slots({});
  }
}

ProcessLane* HandlerSet::process_lane_of(const std::string& name) const {
  const HandlerDirectory::Entry* const entry = directory_.find_any(name);
  return entry == nullptr ? nullptr : processes_.find(entry->lane.name());
}

void HandlerSet::stop_programs(const std::string& name) {
  ProcessLane* const lane = process_lane_of(name);
  if (lane == nullptr) return;
  LaneHandler* const handler = lane->find(name);
  if (handler == nullptr) return;
  lane->set_program(*handler, nullptr);
  lane->set_remote(*handler, false, 0);
}

void HandlerSet::make(const std::string& name, HandlerChanges::Change change) {
  if (!change.settings) return remove(name);
  if (runs_in_process(*change.settings)) {
    make_in_pool(name, *change.settings, std::move(change.plugin));
  } else {
    make_in_lane(name, *change.settings, std::move(change.process));
  }
}

void HandlerSet::remove(const std::string& name) {
  stop_programs(name);
  directory_.remove(name);
  // Nothing of it runs: it is taken down here.
  if (const auto plugin = plugins_.extract(name)) {
    directory_.handler_of(name).run_with(HandlerDirectory::run_elsewhere);
  }
}

void HandlerSet::make_in_pool(const std::string& name, const config::Handler& settings,
                              std::unique_ptr<PluginHandler> plugin) {
  Handler& handler = directory_.handler_of(name);
  stop_programs(name);
  if (plugin != nullptr) {
    handler.describe(plugin->handler().description());
    handler.run_with(plugin->handler().native());
    plugins_[name] = std::move(plugin);
  }
  auto entry = entry_of(handler, cpu(), gate_in_pool(name, is_remote(settings)), settings);
  entry.kind = HandlerKind::kPlugin;
  directory_.add(std::move(entry));
}

void HandlerSet::make_in_lane(const std::string& name, const config::Handler& settings,
                              std::optional<ProcessHandler> process) {
  Handler& handler = directory_.handler_of(name);
  handler.describe(process ? std::move(process->description)
                           : "runs on remote workers (locksley(1), `work`)");
  if (plugins_.contains(name)) {
    handler.run_with(HandlerDirectory::run_elsewhere);
    plugins_.erase(name);
  }
  ProcessLane& lane = *processes_.find(config::lane_of(settings));
  if (process_lane_of(name) != &lane) stop_programs(name);
  LaneHandler& in_lane = lane.handler(name);
  lane.set_program(in_lane, process ? std::move(process->program) : nullptr);
  lane.set_remote(in_lane, is_remote(settings), settings.max_running);
  auto entry = entry_of(handler, lane.lane(), in_lane.gate(), settings);
  entry.kind = process ? process->kind : HandlerKind::kRemote;
  if (process) {
    entry.concurrency = settings.concurrency;
    entry.is_at_rate = [&in_lane] { return in_lane.is_at_rate(); };
    entry.is_backing_off = [&in_lane] { return in_lane.is_backing_off(); };
    entry.processes = [&in_lane] { return in_lane.processes(); };
    entry.restart = [&lane, &in_lane] {
      kIoThread.assert_held();
      return lane.replace_processes(in_lane);
    };
  }
  directory_.add(std::move(entry));
}

GateId HandlerSet::gate_in_pool(const std::string& name, bool is_remote) {
  const auto known = pool_gates_.find(name);
  if (known == pool_gates_.end() && !is_remote) return 0;
  if (known != pool_gates_.end()) {
    cpu().gates().set_remote(known->second, is_remote);
    return known->second;
  }
  const std::optional<GateId> gate = cpu().gates().add({.is_remote = true});
  check(gate.has_value(), "more remote plugins than gates");
  pool_gates_.emplace(name, *gate);
  return *gate;
}

std::vector<const Handler*> HandlerSet::handlers() const {
  std::vector<const Handler*> result;
  for (const auto& [name, entry] : directory_.entries()) result.push_back(&entry.handler);
  for (const auto& [name, entry] : directory_.missing()) {
    const ProcessLane* const lane = process_lane_of(name);
    const LaneHandler* const in_lane = lane == nullptr ? nullptr : lane->find(name);
    if (in_lane != nullptr && entry.lane.view().has_batches(in_lane->gate()))
      result.push_back(&entry.handler);
  }
  return result;
}

}  // namespace locksley::daemon
