#include "daemon/work_program.h"

#include <spdlog/logger.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include "config/lanes.h"
#include "daemon/base/exit_codes.h"
#include "daemon/base/log/log_line.h"
#include "daemon/handler_set.h"
#include "daemon/startup.h"
#include "daemon/upstream_part.h"

namespace locksley::daemon {
namespace {

constexpr std::string_view kNotLoggedIn =
    "the daemon refuses the user or the password: the user comes from --url redis://USER@HOST:PORT, the "
    "password from LOCKSLEY_PASSWORD or a file for --password-file";
constexpr std::string_view kMayNotWork =
    "the daemon does not let this user work: in its configuration `users.NAME.commands: [work]` does, and "
    "`users.NAME.handlers`, if it is there, names the handler, too";

// Waits for the end: of the drain that the first signal begins, the second signal, or that `io` is
// stopped.
int serve_until_signal(asio::io_context& io, Upstream& upstream, const config::Config& config,
                       spdlog::logger& log) {
  asio::signal_set signals(io, SIGTERM, SIGINT);
  asio::steady_timer timer(io);
  int exit_code = kExitOk;
  const auto give_up = [&](ExitCode code) {
    exit_code = code;
    upstream.stop();
    io.stop();
  };
  signals.async_wait([&](const asio::error_code& error, int) {
    if (error) return;
    LogLine("draining: nothing new is leased").write(log, spdlog::level::info);
    upstream.drain([&io] { asio::post(io, [&io] { io.stop(); }); });
    timer.expires_after(config.shutdown.drain_timeout);
    timer.async_wait([&](const asio::error_code& cancelled) {
      if (!cancelled) give_up(kExitTemporary);
    });
    signals.async_wait([&](const asio::error_code& second, int) {
      if (!second) give_up(kExitTerminated);
    });
  });
  io.run();
  return exit_code;
}

}  // namespace

int run_work_program(const config::Config& config, std::shared_ptr<spdlog::logger> log) {
  std::signal(SIGPIPE, SIG_IGN);
  const FairRing::Options ring = ring_options(config, 1);
  Lane lane(std::string(config::kPoolLane), ring);  // without a pool: nothing of it is offered
  const auto handlers = or_fail(HandlerSet::make(config, lane, ring, log), kExitConfig);
  HandlerUse use;
  asio::io_context io(1);
  // A wrong password does not become right by itself, nor does what a user may do. After the first
  // login either may have been changed there before it is here.
  std::string refusal;
  const auto refused = [&io, &refusal](const std::string& why) {
    asio::post(io, [&io, &refusal, why] {
      refusal = why;
      io.stop();
    });
  };
  const std::unique_ptr<Upstream> upstream =
      or_fail(make_upstream(config, nullptr, use, log, refused), kExitConfig);
  if (upstream == nullptr) throw StartFailure(kExitConfig, "--work: the configuration has no upstream.url");
  handlers->processes().start();
  upstream->offer(offered_lanes(config, *handlers, /*pool_workers=*/0));
  upstream->start();
  int exit_code = serve_until_signal(io, *upstream, config, *log);
  if (!refusal.empty() && exit_code == kExitOk) {
    LogLine(refusal.starts_with("NOPERM ") ? kMayNotWork : kNotLoggedIn)
        .with("reason", refusal)
        .write(*log, spdlog::level::err);
    exit_code = kExitNoPermission;
  }
  handlers->processes().stop();
  upstream->end(std::chrono::seconds(1));
  for (Lane* const each : handlers->lanes()) each->detach_all();
  return exit_code;
}

}  // namespace locksley::daemon
