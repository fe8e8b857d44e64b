#include "daemon/reconfiguration.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <asio/post.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "config/lanes.h"
#include "config/load.h"
#include "core/sync/mutex.h"
#include "core/sync/thread_annotations.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/log/logging.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/machine/cpu_count.h"
#include "daemon/live_handlers.h"
#include "daemon/metrics/scheduler_metrics.h"
#include "daemon/server/server.h"

namespace locksley::daemon {

namespace {

std::vector<std::string> sentences(const std::vector<config::Problem>& problems) {
  std::vector<std::string> result;
  for (const config::Problem& problem : problems) result.push_back(config::to_string(problem));
  return result;
}

}  // namespace

// Shared with the thread, which may still run when the process ends.
struct Reconfiguration::Mailbox {
  Mutex mutex;
  Reconfiguration* owner LOCKSLEY_GUARDED_BY(mutex);  // null: it has been destroyed

  explicit Mailbox(Reconfiguration& of) : owner(&of) {}

  void post(config::Reload reload, std::expected<HandlerChanges, HandlerProblems> changes) {
    const MutexLock lock(mutex);
    if (owner == nullptr) return;
    IoMailbox::of(owner->parts_.io)
        .post([owner = owner, reload = std::move(reload), changes = std::move(changes)]() mutable {
          kIoThread.assert_held();
          owner->prepared(std::move(reload), std::move(changes));
        });
  }
};

Reconfiguration::Reconfiguration(Parts parts, ConfigSource source)
    : parts_(std::move(parts)),
      source_(std::move(source)),
      mailbox_(std::make_shared<Mailbox>(*this)),
      pool_resizer_(parts_.pool, parts_.log) {}

Reconfiguration::~Reconfiguration() {
  const MutexLock lock(mailbox_->mutex);
  mailbox_->owner = nullptr;
}

void Reconfiguration::reload(Done done) {
  ask({.is_by_client = false,
       .read =
           [this] {
             kIoThread.assert_held();
             return read_file();
           },
       .done = std::move(done)});
}

void Reconfiguration::set(ConfigChanges::Values values, Done done) {
  ask({.is_by_client = true,
       .read =
           [this, values = std::move(values)] {
             kIoThread.assert_held();
             return read_values(values);
           },
       .done = std::move(done)});
}

std::expected<config::Reload, std::vector<std::string>> Reconfiguration::read_file() const {
  if (source_.file.empty()) {
    return std::unexpected(
        std::vector<std::string>{"no configuration to read again: started without --config"});
  }
  const auto loaded = load(source_);
  if (!loaded) return std::unexpected(loaded.error());
  return config::diff_reloadable(parts_.server.config(), *loaded);
}

std::expected<config::Reload, std::vector<std::string>> Reconfiguration::read_values(
    const ConfigChanges::Values& values) const {
  const auto changed = config::with_values(parts_.server.config(), values);
  if (!changed) return std::unexpected(sentences(changed.error()));
  config::Reload reload = config::diff_reloadable(parts_.server.config(), *changed);
  std::vector<std::string> problems;
  for (const std::string& key : reload.restart) {
    problems.push_back(fmt::format("{}: needs a restart, with another value in the file", key));
  }
  for (const std::string& key : reload.file) {
    problems.push_back(
        fmt::format("{}: the file alone says which programs run and who may do what; CONFIG RELOAD, or "
                    "SIGHUP, reads it again",
                    key));
  }
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return reload;
}

void Reconfiguration::ask(Request request) {
  requests_.push_back(std::move(request));
  if (requests_.size() == 1) begin_next();
}

void Reconfiguration::begin_next() {
  auto reload = requests_.front().read();
  if (!reload) return end(std::unexpected(std::move(reload.error())));
  config::derive_limits(reload->effective, parts_.machine);
  const std::map<std::string, config::Handler> before = handlers_of(parts_.server.config());
  std::map<std::string, config::Handler> after = handlers_of(reload->effective);
  if (after == before) return prepared(std::move(*reload), HandlerChanges{});
  // Not joined: it may wait for a plugin that hangs, and that must not keep the process from
  // ending.
  try {
    std::thread([mailbox = mailbox_, before, after = std::move(after),
                 users = parts_.handlers.processes().keeper_users(), reload = std::move(*reload)]() mutable {
      auto changes = prepare_handlers(before, after, users);
      mailbox->post(std::move(reload), std::move(changes));
    }).detach();
  } catch (const std::system_error& error) {
    end(std::unexpected(
        std::vector{fmt::format("could not start a thread for the handlers: {}", error.what())}));
  }
}

void Reconfiguration::prepared(config::Reload reload,
                               std::expected<HandlerChanges, HandlerProblems> changes) {
  std::vector<std::string> problems;
  std::vector<Commit> commits;
  for (const Prepare& prepare : parts_to_ask_) {
    auto commit = prepare(reload.effective);
    if (commit) {
      commits.push_back(std::move(*commit));
    } else {
      std::ranges::move(commit.error(), std::back_inserter(problems));
    }
  }
  if (!changes) std::ranges::move(changes.error(), std::back_inserter(problems));
  // Last, because loading a plugin runs its code.
  if (problems.empty()) {
    if (auto loaded = parts_.handlers.load(handlers_of(parts_.server.config()), *changes); !loaded) {
      problems = std::move(loaded.error());
    }
  }
  if (!problems.empty()) {
    if (!requests_.front().is_by_client) problems = with_positions(source_, std::move(problems));
    return end(std::unexpected(std::move(problems)));
  }
  take(reload, std::move(*changes), std::move(commits));
  end({});
}

void Reconfiguration::take(const config::Reload& reload, HandlerChanges changes,
                           std::vector<Commit> commits) {
  for (const std::string& key : reload.live) {
    LogLine("configuration changed").with("key", key).write(*parts_.log, spdlog::level::info);
  }
  for (const std::string& key : reload.restart) {
    LogLine("configuration changed, needs a restart")
        .with("key", key)
        .write(*parts_.log, spdlog::level::warn);
  }
  const config::Config& config = reload.effective;
  set_log_level(*parts_.log, config.log.level);
  set_log_format(*parts_.log, config.log.format);
  parts_.pool.set_quantum(config.scheduling.quantum);
  parts_.handlers.set_quantum(config.scheduling.quantum);
  for (Lane* lane : parts_.server.lanes()) lane->set_quantum(config.scheduling.quantum);
  parts_.handlers.set_lanes(config, workers_of(config));
  parts_.metrics.set_limits(
      {.deepest_batches = config.metrics.deepest_batches, .tenants = config.metrics.tenants});
  pool_resizer_.resize(workers_of(config));
  parts_.server.reconfigure(config);
  for (Commit& commit : commits) commit();
  parts_.live_handlers.apply(std::move(changes));
}

std::uint32_t Reconfiguration::workers_of(const config::Config& config) const {
  return std::max(config.pool.workers != 0 ? config.pool.workers : usable_cpus(), parts_.pool.reserved() + 1);
}

std::map<std::string, config::Handler> Reconfiguration::handlers_of(const config::Config& config) const {
  return config::all_handlers(config, workers_of(config));
}

void Reconfiguration::end(const Result& result) {
  const Request request = std::move(requests_.front());
  if (result && request.is_by_client) {
    parts_.log->info("configuration changed until it is read again: CONFIG SET");
  } else if (result) {
    LogLine("configuration read again").with("file", source_.file).write(*parts_.log, spdlog::level::info);
  } else if (!request.is_by_client) {
    for (const std::string& problem : result.error()) parts_.log->error("{}", problem);
    LogLine("the configuration stays as it was: the file has problems")
        .with("file", source_.file)
        .with("problems", result.error().size())
        .write(*parts_.log, spdlog::level::err);
  }
  request.done(result);
  requests_.pop_front();
  if (!requests_.empty())
    asio::post(parts_.io, [this] {
      kIoThread.assert_held();
      begin_next();
    });
}

}  // namespace locksley::daemon
