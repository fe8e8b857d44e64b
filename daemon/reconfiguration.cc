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

std::expected<config::Reload, std::vector<std::string>> read_file(const ConfigSource& source,
                                                                  const config::Config& current) {
  if (source.file.empty()) {
    return std::unexpected(
        std::vector<std::string>{"no configuration to read again: started without --config"});
  }
  const auto loaded = load(source);
  if (!loaded) return std::unexpected(loaded.error());
  return config::diff_reloadable(current, *loaded);
}

std::expected<config::Reload, std::vector<std::string>> read_values(const ConfigChanges::Values& values,
                                                                    const config::Config& current) {
  const auto changed = config::with_values(current, values);
  if (!changed) return std::unexpected(sentences(changed.error()));
  config::Reload reload = config::diff_reloadable(current, *changed);
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

std::uint32_t workers_of(const config::Config& config, std::uint32_t reserved) {
  return std::max(config.pool.workers != 0 ? config.pool.workers : usable_cpus(), reserved + 1);
}

// With that of `exec`.
std::map<std::string, config::Handler> handlers_of(const config::Config& config, std::uint32_t reserved) {
  return config::all_handlers(config, workers_of(config, reserved));
}

// Each user of a configuration has some objects on the heap.
void destroy_aside(std::shared_ptr<const config::Config> before, config::Config replaced) {
  constexpr std::size_t kFewUsers = 256;  // some 100 us
  if (replaced.users.size() <= kFewUsers) return;
  try {
    std::thread([before = std::move(before), replaced = std::move(replaced)] {}).detach();
  } catch (const std::system_error&) {
    // They are destroyed here.
  }
}

}  // namespace

// Shared with the thread, which may still run when the process ends.
struct Reconfiguration::Mailbox {
  Mutex mutex;
  CondVar idle;
  Reconfiguration* owner LOCKSLEY_GUARDED_BY(mutex);  // null: it has been destroyed
  // Threads that read or destroy configurations. They use objects that the end of main() destroys,
  // such as the tables of the YAML reader.
  int busy LOCKSLEY_GUARDED_BY(mutex) = 0;

  explicit Mailbox(Reconfiguration& of) : owner(&of) {}

  void begin() {
    const MutexLock lock(mutex);
    ++busy;
  }
  void end() {
    const MutexLock lock(mutex);
    if (--busy == 0) idle.notify_one();
  }

  using Function = std::move_only_function<void(Reconfiguration&)>;
  void post(Function function) {
    const MutexLock lock(mutex);
    if (owner == nullptr) return;
    IoMailbox::of(owner->parts_.io).post([owner = owner, function = std::move(function)]() mutable {
      function(*owner);
    });
  }
};

Reconfiguration::Reconfiguration(Parts parts, ConfigSource source)
    : parts_(std::move(parts)),
      source_(std::move(source)),
      current_(std::make_shared<const config::Config>(parts_.server.config())),
      mailbox_(std::make_shared<Mailbox>(*this)),
      pool_resizer_(parts_.pool, parts_.log) {}

// Waits for what takes seconds at most, but not for a plugin, which may hang.
Reconfiguration::~Reconfiguration() {
  const MutexLock lock(mailbox_->mutex);
  mailbox_->owner = nullptr;
  while (mailbox_->busy != 0) mailbox_->idle.wait(mailbox_->mutex);
}

void Reconfiguration::reload(Done done) {
  ask({.is_by_client = false,
       .read = [source = source_](const config::Config& current) { return read_file(source, current); },
       .done = std::move(done)});
}

void Reconfiguration::set(ConfigChanges::Values values, Done done) {
  ask({.is_by_client = true,
       .read = [values = std::move(values)](
                   const config::Config& current) { return read_values(values, current); },
       .done = std::move(done)});
}

void Reconfiguration::ask(Request request) {
  requests_.push_back(std::move(request));
  if (requests_.size() == 1) begin_next();
}

void Reconfiguration::on_thread(std::move_only_function<void()> work) {
  mailbox_->begin();
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::system_error& error) {
    mailbox_->end();
    end(std::unexpected(
        std::vector{fmt::format("could not start a thread for the configuration: {}", error.what())}));
  }
}

void Reconfiguration::begin_next() {
  on_thread([mailbox = mailbox_, read = requests_.front().read, current = current_, machine = parts_.machine,
             reserved = parts_.pool.reserved(), users = parts_.handlers.processes().keeper_users()] {
    auto reload = read(*current);
    if (!reload) {
      mailbox->post([problems = std::move(reload.error())](Reconfiguration& owner) {
        owner.end(std::unexpected(problems));
      });
      return mailbox->end();
    }
    config::derive_limits(reload->effective, machine);
    const auto before = handlers_of(*current, reserved);
    const auto after = handlers_of(reload->effective, reserved);
    const config::ChangedParts parts = config::changed_parts(*current, reload->effective);
    Found found{.reload = std::move(*reload), .copy = nullptr, .parts = parts, .changes = HandlerChanges{}};
    found.copy = std::make_shared<const config::Config>(found.reload.effective);
    mailbox->end();
    if (after != before) found.changes = prepare_handlers(before, after, users);
    mailbox->post([found = std::move(found)](Reconfiguration& owner) mutable {
      kIoThread.assert_held();
      owner.prepared(std::move(found));
    });
  });
}

void Reconfiguration::prepared(Found found) {
  Problems problems;
  std::vector<Commit> commits;
  for (const Prepare& prepare : parts_to_ask_) {
    auto commit = prepare(found.reload.effective);
    if (commit) {
      commits.push_back(std::move(*commit));
    } else {
      std::ranges::move(commit.error(), std::back_inserter(problems));
    }
  }
  if (!found.changes) std::ranges::move(found.changes.error(), std::back_inserter(problems));
  // Last, because loading a plugin runs its code.
  if (problems.empty()) {
    const auto before = handlers_of(*current_, parts_.pool.reserved());
    if (auto loaded = parts_.handlers.load(before, *found.changes); !loaded) {
      problems = std::move(loaded.error());
    }
  }
  if (!problems.empty()) return refuse(std::move(problems));
  take(std::move(found), std::move(commits));
  end({});
}

void Reconfiguration::refuse(Problems problems) {
  if (requests_.front().is_by_client) return end(std::unexpected(std::move(problems)));
  on_thread([mailbox = mailbox_, source = source_, problems = std::move(problems)]() mutable {
    mailbox->post([placed = with_positions(source, std::move(problems))](Reconfiguration& owner) {
      owner.end(std::unexpected(placed));
    });
    mailbox->end();
  });
}

void Reconfiguration::take(Found found, std::vector<Commit> commits) {
  const config::Reload& reload = found.reload;
  for (const std::string& key : reload.live) {
    LogLine("configuration changed").with("key", key).write(*parts_.log, spdlog::level::info);
  }
  for (const std::string& key : reload.restart) {
    LogLine("configuration changed, needs a restart")
        .with("key", key)
        .write(*parts_.log, spdlog::level::warn);
  }
  auto before = std::exchange(current_, std::move(found.copy));
  const config::Config& config = *current_;
  const std::uint32_t workers = workers_of(config, parts_.pool.reserved());
  set_log_level(*parts_.log, config.log.level);
  set_log_format(*parts_.log, config.log.format);
  parts_.pool.set_quantum(config.scheduling.quantum);
  parts_.handlers.set_quantum(config.scheduling.quantum);
  for (Lane* lane : parts_.server.lanes()) lane->set_quantum(config.scheduling.quantum);
  parts_.handlers.set_lanes(config, workers);
  parts_.metrics.set_limits(
      {.deepest_batches = config.metrics.deepest_batches, .tenants = config.metrics.tenants});
  pool_resizer_.resize(workers);
  config::Config replaced = parts_.server.reconfigure(std::move(found.reload.effective), found.parts);
  for (Commit& commit : commits) commit();
  parts_.live_handlers.apply(std::move(*found.changes));
  destroy_aside(std::move(before), std::move(replaced));
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
