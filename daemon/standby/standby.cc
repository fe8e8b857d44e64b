#include "daemon/standby/standby.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <asio/signal_set.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <expected>
#include <future>
#include <memory>
#include <string_view>
#include <utility>

#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/auth/authenticator.h"
#include "daemon/base/exit_codes.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_loop.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/net/endpoint_text.h"
#include "daemon/base/time.h"
#include "daemon/http/hosts.h"
#include "daemon/http/login.h"
#include "daemon/http/pages/operator_pages.h"
#include "daemon/http/router.h"
#include "daemon/http/server.h"
#include "daemon/metrics/build_info.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/process_metrics.h"
#include "daemon/metrics/server_metrics.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/server.h"
#include "daemon/store/cluster_metrics.h"
#include "daemon/worker_port/worker_port.h"

namespace locksley::daemon {
namespace {

// Why no batch can be sent here, for /readyz and for other pages.
std::string unready(const ClusterBoard& cluster) {
  if (cluster.role() != ClusterBoard::Role::kStandby) return "takes over: reads the batches";
  const ClusterBoard::View view = cluster.get();
  if (view->trouble) return "stands by: the database cannot be reached: " + *view->trouble;
  return "stands by: " + where_the_active_daemon_is(*view);
}

HttpReply refusal(const ClusterBoard& cluster) {
  return {.status = HttpStatus::kUnavailable, .body = unready(cluster) + "\n"};
}

}  // namespace

// What the thread has: a client port without batches, the pages /metrics, /healthz and /readyz, and
// a port that sends workers to the active daemon. Lives on the thread's stack.
class Standby::Desk {
 public:
  explicit Desk(Standby& standby) LOCKSLEY_REQUIRES(kIoThread);

  std::expected<void, std::string> open() LOCKSLEY_REQUIRES(kIoThread);
  void run() LOCKSLEY_REQUIRES(kIoThread);
  // From here on nothing is accepted or executed; ends run() soon.
  void close() LOCKSLEY_REQUIRES(kIoThread);

 private:
  void add_pages();
  void wait_for_signal();
  void feed_watchdog();

  Standby& standby_;
  const config::Config& config_;
  ClusterBoard& cluster_;
  asio::io_context& io_;
  // Empty, and never started: the server needs them.
  Tenants tenants_;
  Lane lane_{"standby", FairRing::Options{}};
  Pool pool_{lane_};
  HandlerDirectory handlers_;
  Authenticator authenticator_;
  Server server_;
  WorkerPort workers_;

  HttpLogin login_;
  HttpHosts hosts_;
  MetricsPage metrics_;
  Router router_;
  HttpServer http_;

  asio::basic_signal_set<IoExecutor> signals_;
  Timer watchdog_timer_;  // armed only if systemd asks for it
  std::chrono::microseconds watchdog_interval_{};
};

Standby::Desk::Desk(Standby& standby)
    : standby_(standby),
      config_(standby.parts_.config),
      cluster_(*standby.parts_.cluster),
      io_(standby.io_),
      authenticator_(io_.get_executor()),
      server_({.io = io_,
               .tenants = tenants_,
               .handlers = handlers_,
               .lanes = {&lane_},
               .pool = pool_,
               .store = nullptr,
               .authenticator = authenticator_,
               .log = standby.parts_.log,
               .version = standby.parts_.version,
               .blocks = nullptr,
               .cluster = &cluster_},
              config_),
      workers_(server_.state(), nullptr),
      login_(authenticator_,
             [this](const std::string& name) -> std::optional<HttpUser> {
               const auto user = config_.users.find(name);
               if (user == config_.users.end()) return std::nullopt;
               return HttpUser{.hash = user->second.password_hash, .groups = user->second.commands};
             }),
      router_(&login_, &hosts_),
      http_(io_, router_),
      signals_(io_.get_executor(), SIGTERM, SIGINT, SIGHUP),
      watchdog_timer_(io_) {
  login_.set(config_.http.login, std::move(standby.parts_.http_token));
  hosts_.set(config_.http.hosts);
  workers_.begin();
  server_.use_tls(standby.parts_.tls.listen);
  workers_.update(standby.parts_.tls.workers);
  http_.use_tls(standby.parts_.tls.http, server_.state().handshakes());
  add_pages();
}

void Standby::Desk::add_pages() {
  metrics_.add([this](Families& families) { read_cluster_metrics(cluster_, families); });
  metrics_.add([this](Families& families) { read_server_metrics(server_.state().stats(), families); });
  metrics_.add([](Families& families) { read_process_metrics(families); });
  metrics_.add([](Families& families) { read_build_info(families); });
  kIoThread.assert_held();
  add_metrics_page(router_, metrics_, {.slices = server_.state().slices(), .line_of = [](const HttpCaller&) {
                                         return kDaemonsLine;
                                       }});
  router_.get("/healthz", Access::kEverybody, [](const HttpRequest&) { return HttpReply{.body = "ok\n"}; });
  router_.get("/readyz", Access::kEverybody, [this](const HttpRequest&) { return refusal(cluster_); });
  const auto elsewhere = [this](const HttpRequest&) { return refusal(cluster_); };
  router_.get_below("/", Access::kUsers, elsewhere);
  router_.post_below("/", elsewhere);
}

std::expected<void, std::string> Standby::Desk::open() {
  auto http = standby_.parts_.http.duplicate();
  if (!http) return std::unexpected("http: " + http.error());
  auto listen = standby_.parts_.listen.duplicate();
  if (!listen) return std::unexpected("listen: " + listen.error());
  if (auto opened = http_.listen(*std::move(http)); !opened)
    return std::unexpected("http: " + opened.error());
  if (auto opened = server_.listen(*std::move(listen)); !opened) {
    return std::unexpected("listen: " + opened.error());
  }
  if (standby_.parts_.workers) {
    auto workers = standby_.parts_.workers->duplicate();
    if (!workers) return std::unexpected("workers: " + workers.error());
    if (auto opened = workers_.listen(*std::move(workers), standby_.parts_.workers_at); !opened)
      return std::unexpected("workers: " + opened.error());
    workers_.start();
  }
  wait_for_signal();
  std::uint64_t usec = 0;
  if (::sd_watchdog_enabled(0, &usec) > 0) {
    watchdog_interval_ = std::chrono::microseconds(usec / 2);
    feed_watchdog();
  }
  return {};
}

void Standby::Desk::run() {
  run_io_loop(io_, {.may_poll = [] { return false; }, .awaits_worker = [] { return false; }},
              server_.state().stats().stretches);
}

void Standby::Desk::close() {
  asio::error_code ignored;
  signals_.clear(ignored);
  watchdog_timer_.cancel();
  http_.stop();
  workers_.stop();
  server_.cut("this daemon has taken over", [this] { io_.stop(); });
}

void Standby::Desk::wait_for_signal() {
  signals_.async_wait([this](const asio::error_code& error, int signal) {
    if (error) return;
    standby_.take_signal(signal);
    wait_for_signal();
  });
}

void Standby::Desk::feed_watchdog() {
  ::sd_notify(0, "WATCHDOG=1");
  watchdog_timer_.expires_after(watchdog_interval_);
  watchdog_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) feed_watchdog();
  });
}

Standby::Standby(Parts parts) : parts_(std::move(parts)) {}

Standby::~Standby() {
  hand_over();
  if (thread_.joinable()) thread_.join();
}

std::expected<bool, std::string> Standby::wait(std::chrono::milliseconds time) {
  if (!thread_.joinable()) {
    // Shared, because the thread may still be in set_value() when this one goes on.
    const auto opened = std::make_shared<std::promise<std::string>>();
    std::future<std::string> outcome = opened->get_future();
    thread_ = std::thread(
        [this, opened] { run([&opened](std::string why) { opened->set_value(std::move(why)); }); });
    if (const std::string why = outcome.get(); !why.empty()) return std::unexpected(why);
    std::string where = fmt::format("standby listen={} http={}", to_text(parts_.listen.endpoint()),
                                    to_text(parts_.http.endpoint()));
    if (parts_.workers) where += " workers=" + to_text(parts_.workers->endpoint());
    std::fputs((where + "\n").c_str(), stdout);
    std::fflush(stdout);
    ::sd_notify(0, "READY=1\nSTATUS=stands by");
  }
  const Instant end = now() + time;
  const MutexLock lock(mutex_);
  while (!is_to_end() && now() < end) signalled_.wait_until(mutex_, end);
  has_ended_waiting_ = is_to_end();
  return !has_ended_waiting_;
}

bool Standby::is_to_end() const {
  return std::ranges::any_of(signals_, [](int signal) { return signal != SIGHUP; });
}

bool Standby::is_told_to_end() const {
  const MutexLock lock(mutex_);
  return has_ended_waiting_;
}

void Standby::run(const std::function<void(std::string)>& opened) {
  const ThreadRoleScope role(kIoThread);
  Desk desk(*this);
  if (auto open = desk.open(); !open) return opened(std::move(open.error()));
  desk_ = &desk;
  opened("");
  desk.run();
}

void Standby::take_signal(int signal) {
  const MutexLock lock(mutex_);
  const bool came_before = std::ranges::find(signals_, signal) != signals_.end();
  if (signal == SIGHUP) {
    LogLine("the configuration file is read again once this daemon is active")
        .write(*parts_.log, spdlog::level::info);
  } else if (came_before) {
    // It waits for the database.
    LogLine("closing").with("reason", "a second signal").write(*parts_.log, spdlog::level::info);
    parts_.log->flush();
    std::_Exit(kExitTerminated);
  }
  if (!came_before) signals_.push_back(signal);
  signalled_.notify_all();
}

void Standby::hand_over() {
  if (desk_ == nullptr) return;
  const auto closed = std::make_shared<std::promise<void>>();
  std::future<void> is_closed = closed->get_future();
  IoMailbox::of(io_).post([desk = std::exchange(desk_, nullptr), closed] {
    kIoThread.assert_held();
    desk->close();
    closed->set_value();
  });
  is_closed.wait();
  ::sd_notify(0, "STATUS=");
}

void Standby::resend_signals() {
  const MutexLock lock(mutex_);
  for (const int signal : std::exchange(signals_, {})) std::raise(signal);
}

}  // namespace locksley::daemon
