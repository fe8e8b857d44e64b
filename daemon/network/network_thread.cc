#include "daemon/network/network_thread.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/check.h"
#include "core/sync/adaptive_spin.h"
#include "daemon/network/counted_lock.h"

namespace locksley::daemon {

NetworkThread::NetworkThread(ReadyRelays& ready, std::function<bool()> may_look)
    : ready_(ready),
      may_look_(std::move(may_look)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

NetworkThread::~NetworkThread() {
  kIoThread.assert_held();
  check(!thread_.joinable(), "a network thread is destroyed that was not stopped");
  ::close(wake_up_);
  ::close(epoll_);
}

void NetworkThread::start() {
  kIoThread.assert_held();
  // Edge-triggered: each write is an event, and the count need not be read.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
  if (epoll_ < 0 || wake_up_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_up_, &event) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
  thread_ = std::thread([this] { run(); });
}

void NetworkThread::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  wake();
  thread_.join();
}

RelayedConnection& NetworkThread::adopt(std::unique_ptr<RelayedConnection> connection) {
  RelayedConnection& adopted = *connection;
  stats_.connections.add(1);
  bool wakes = false;
  {
    const CountedLock lock(mutex_, stats_.io_waits);
    orders_.adopted.push_back(std::move(connection));
    wakes = std::exchange(is_asleep_, false);
  }
  if (wakes) wake();
  return adopted;
}

void NetworkThread::notify(RelayedConnection& connection) {
  bool wakes = false;
  {
    const CountedLock lock(mutex_, stats_.io_waits);
    orders_.told.push_back(&connection);
    wakes = std::exchange(is_asleep_, false);
  }
  if (wakes) wake();
}

void NetworkThread::wake() {
  stats_.wakeups.add(1);
  ::eventfd_write(wake_up_, 1);
}

void NetworkThread::run() {
  const ThreadRoleScope role(kNetworkThread);
  ::pthread_setname_np(::pthread_self(), "network");  // for top and for tests
  scratch_.resize(kScratchBytes);
  AdaptiveSpin spin;
  while (!is_stopped_) {
    const auto look = [this] {
      kNetworkThread.assume_held();
      return run_round(Wait::kNo) || is_stopped_;
    };
    if (spin.poll(may_look_(), look)) continue;
    run_round(Wait::kUntilReady);
    spin.parked();
  }
  // Each is closed.
  connections_.clear();
}

bool NetworkThread::may_sleep() {
  if (!lines_.empty() || !heavy_lines_.empty()) return false;
  const CountedLock lock(mutex_, stats_.network_waits);
  is_asleep_ = orders_.empty() && !is_stopping_;
  return is_asleep_;
}

bool NetworkThread::take_orders() {
  {
    const CountedLock lock(mutex_, stats_.network_waits);
    std::swap(taken_, orders_);
    is_stopped_ = is_stopping_;
    is_asleep_ = false;
  }
  if (taken_.empty()) return false;
  RelayedConnection::Round now = round();
  for (auto& connection : taken_.adopted) adopt_now(std::move(connection));
  taken_.adopted.clear();
  for (RelayedConnection* const connection : taken_.told) {
    if (connection->take_orders(now)) {
      close(*connection);
    } else {
      put_in_line(*connection);
    }
  }
  taken_.told.clear();
  return true;
}

void NetworkThread::adopt_now(std::unique_ptr<RelayedConnection> owned) {
  RelayedConnection& connection = *owned;
  connections_.emplace(&connection, std::move(owned));
  RelayedConnection::Round now = round();
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = &connection}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.socket(), &event) != 0) return connection.fail(now);
  // TLS may have taken in bytes with the last of the handshake, of which the socket does not tell.
  put_in_line(connection);
}

void NetworkThread::put_in_line(RelayedConnection& connection) {
  if (std::exchange(connection.is_in_line, true)) return;
  (connection.has_much() ? heavy_lines_ : lines_).push(connection.line(), &connection);
}

void NetworkThread::close(RelayedConnection& connection) {
  // Closing alone would leave it registered while a child process that was just forked has a copy
  // of the socket.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.socket(), nullptr);
  connection.close();
  if (!connection.is_in_line) connections_.erase(&connection);
}

void NetworkThread::tell_io() { ready_.add(news_, stats_.network_waits); }

bool NetworkThread::run_round(Wait wait) {
  const bool sleeps = wait == Wait::kUntilReady && may_sleep();
  const bool has_polled = poll(sleeps ? Wait::kUntilReady : Wait::kNo);
  const bool has_orders = take_orders();
  const bool has_served = serve();
  tell_io();
  return has_polled || has_orders || has_served;
}

bool NetworkThread::poll(Wait wait) {
  std::array<epoll_event, kMostEvents> events;
  std::size_t count = kMostEvents;
  bool has_any = false;
  for (int polls = 0; polls < kMostPolls && count == kMostEvents; ++polls) {
    const bool waits = wait == Wait::kUntilReady && polls == 0;
    const int got = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), waits ? -1 : 0);
    count = static_cast<std::size_t>(std::max(got, 0));
    has_any = has_any || count != 0;
    for (const epoll_event& event : std::span(events).first(count)) {
      if (event.data.ptr == nullptr) continue;  // woken
      auto& connection = *static_cast<RelayedConnection*>(event.data.ptr);
      connection.socket_is_ready(event.events);
      put_in_line(connection);
    }
  }
  return has_any;
}

bool NetworkThread::serve() {
  const bool has_light = serve(lines_, kMostServed);
  const bool has_heavy = serve(heavy_lines_, kMostHeavyServed);
  return has_light || has_heavy;
}

bool NetworkThread::serve(UserLines<RelayedConnection*>& lines, std::size_t most) {
  RelayedConnection::Round now = round();
  std::size_t served = 0;
  for (; served < most && !lines.empty(); ++served) {
    RelayedConnection& connection = *lines.pop().item;
    connection.is_in_line = false;
    if (connection.is_closed()) {
      connections_.erase(&connection);
    } else if (connection.serve(now) == RelayedConnection::Then::kMore) {
      put_in_line(connection);
    }
  }
  return served != 0;
}

}  // namespace locksley::daemon
