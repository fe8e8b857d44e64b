#include "daemon/service.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <systemd/sd-daemon.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "daemon/base/exit_codes.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/io_loop.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/time.h"
#include "daemon/http/pages/health.h"
#include "daemon/http/server.h"
#include "daemon/process/handler_lanes.h"
#include "daemon/reconfiguration.h"
#include "daemon/server/server.h"
#include "daemon/upstream/upstream.h"
#include "daemon/worker_port/worker_port.h"

namespace locksley::daemon {
namespace {

// A generous bound from the end of the drain to the end of the process: connections have one
// second, programs and jobs two each, and the store must be written.
constexpr auto kClosingTime = std::chrono::seconds(15);

}  // namespace

Service::Service(Parts parts)
    : parts_(std::move(parts)),
      signals_(parts_.io.get_executor(), SIGTERM, SIGINT, SIGHUP),
      drain_timer_(parts_.io),
      watchdog_timer_(parts_.io) {}

int Service::run(const std::string& ready_line) {
  wait_for_signal();
  parts_.health.set_phase(Health::Phase::kServing);
  std::fputs((ready_line + "\n").c_str(), stdout);
  std::fflush(stdout);
  ::sd_notify(0, "READY=1");
  start_watchdog();
  run_io_loop(parts_.io,
              {.may_poll = [this] { return parts_.pool.has_free_worker(); },
               .awaits_worker =
                   [this] {
                     kIoThread.assert_held();
                     return parts_.server.state().has_waiting_clients();
                   }},
              parts_.server.state().stats().stretches);
  // From here on a signal ends the process, whatever a worker is doing.
  asio::error_code ignored;
  signals_.clear(ignored);
  return exit_code_;
}

void Service::wait_for_signal() {
  signals_.async_wait([this](const asio::error_code& error, int signal) {
    kIoThread.assert_held();
    if (error) return;
    if (signal == SIGHUP) {
      reload();
    } else if (!draining_) {
      begin_drain();
    } else {
      begin_close(kExitTerminated, "a second signal");
    }
    wait_for_signal();
  });
}

void Service::start_watchdog() {
  std::uint64_t usec = 0;
  if (::sd_watchdog_enabled(0, &usec) <= 0) return;
  watchdog_interval_ = std::chrono::microseconds(usec / 2);
  feed_watchdog();
}

void Service::feed_watchdog() {
  // A daemon whose work is not done by any worker is as good as dead: it stops reporting, and
  // systemd restarts it.
  if (const auto trouble = parts_.health.trouble()) {
    LogLine("no sign of life for systemd").with("reason", *trouble).write(*parts_.log, spdlog::level::err);
  } else {
    ::sd_notify(0, "WATCHDOG=1");
  }
  watchdog_timer_.expires_after(watchdog_interval_);
  watchdog_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) feed_watchdog();
  });
}

void Service::begin_drain() {
  draining_ = true;
  parts_.health.set_phase(Health::Phase::kDraining);
  const auto limit = parts_.server.config().shutdown.drain_timeout;
  // systemd waits as long as this configuration says, even if its own timeout is shorter.
  const auto patience = std::chrono::duration_cast<std::chrono::microseconds>(limit + kClosingTime);
  ::sd_notify(0, fmt::format("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", patience.count()).c_str());
  LogLine("draining: nothing new is accepted")
      .with("active_batches", parts_.server.batches().active())
      .with("queued_jobs", parts_.server.batches().registry().charges().queued_jobs())
      .with("drain_timeout", config::to_string(limit))
      .write(*parts_.log, spdlog::level::info);
  drain_timer_.expires_after(limit);
  drain_timer_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (!error) begin_close(kExitTemporary, "shutdown.drain_timeout passed");
  });
  parts_to_drain_ = parts_.upstream == nullptr ? 1 : 2;
  if (parts_.upstream != nullptr) {
    parts_.upstream->drain([this, &mailbox = IoMailbox::of(parts_.io)] {
      mailbox.post([this] {
        kIoThread.assert_held();
        part_is_drained();
      });
    });
  }
  parts_.server.drain([this] {
    kIoThread.assert_held();
    part_is_drained();
  });
}

void Service::part_is_drained() {
  if (--parts_to_drain_ == 0) begin_close(kExitOk, "nothing is left to do");
}

void Service::begin_close(int exit_code, const char* why) {
  if (std::exchange(closing_, true)) return;
  exit_code_ = exit_code;
  LogLine("closing").with("reason", why).write(*parts_.log, spdlog::level::info);
  log_what_is_left();
  // Not before: what is queued for remote workers has to end, too.
  parts_.workers.drain();
  if (parts_.upstream != nullptr) parts_.upstream->stop();
  parts_.processes.begin_stop();
  drain_timer_.cancel();
  parts_.http.stop();
  parts_.server.close([this] { parts_.io.stop(); });
}

void Service::log_what_is_left() {
  constexpr int kMostLines = 20;
  int lines = 0;
  Batches& batches = parts_.server.batches();
  std::vector<BatchRecord*> left;
  // Active batches are in memory, so the listing cannot fail.
  static_cast<void>(
      batches.registry().list({.active_only = true, .most = batches.active()}, [&](BatchRecord& record) {
        left.push_back(&record);
        return true;
      }));
  for (BatchRecord* record : left) {
    const BatchStatus status = record->status();
    if (++lines <= kMostLines) {
      LogLine("batch left unfinished")
          .about(*record)
          .with("jobs", status.jobs)
          .with("queued", status.queued)
          .with("running", status.running)
          .with("ok", status.ok)
          .with("failed", status.failed)
          .write(*parts_.log, spdlog::level::warn);
    }
    // Tells running jobs to stop, since the process waits for them. Batches in the store go on at
    // the next start.
    if (record->is_stored()) continue;
    batches.changes().cancel(*record, batches.registry().tenant_of(*record).account, "the daemon ends");
  }
  if (lines > kMostLines) {
    LogLine("more batches left unfinished")
        .with("unlogged", lines - kMostLines)
        .write(*parts_.log, spdlog::level::warn);
  }
}

void Service::reload() {
  const auto monotonic = std::chrono::duration_cast<std::chrono::microseconds>(now().time_since_epoch());
  ::sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic.count()).c_str());
  parts_.reconfiguration.reload([](const Reconfiguration::Result&) { ::sd_notify(0, "READY=1"); });
}

}  // namespace locksley::daemon
