#include "daemon/cli/top/poller.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <iterator>
#include <random>
#include <utility>

#include "core/base/job.h"
#include "proto/clients/cpp/backoff.h"
#include "proto/clients/cpp/connection.h"
#include "proto/clients/cpp/deadline.h"

namespace locksley::cli {

TopPoller::TopPoller(std::vector<client::Address> addresses, std::chrono::milliseconds interval)
    : addresses_(std::move(addresses)),
      interval_(interval),
      news_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

TopPoller::~TopPoller() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_one();
  }
  stop_.raise();
  thread_.join();
  ::close(news_fd_);
}

std::vector<TopPoller::News> TopPoller::take() {
  const MutexLock lock(mutex_);
  eventfd_t ignored = 0;
  ::eventfd_read(news_fd_, &ignored);
  std::vector<News> taken(std::make_move_iterator(news_.begin()), std::make_move_iterator(news_.end()));
  news_.clear();
  return taken;
}

void TopPoller::push_news(News news) {
  const MutexLock lock(mutex_);
  // A snapshot that was not taken is replaced.
  if (std::holds_alternative<TopSnapshot>(news) && !news_.empty() &&
      std::holds_alternative<TopSnapshot>(news_.back())) {
    news_.pop_back();
  }
  news_.push_back(std::move(news));
  ::eventfd_write(news_fd_, 1);
}

void TopPoller::look_at(TopDemand demand) {
  const MutexLock lock(mutex_);
  if (demand.detail && demand.detail != demand_.detail) {
    is_urgent_ = true;
    changed_.notify_one();
  }
  demand_ = std::move(demand);
}

void TopPoller::act(TopAction action) {
  const MutexLock lock(mutex_);
  actions_.push_back(std::move(action));
  is_urgent_ = true;
  changed_.notify_one();
}

bool TopPoller::wait(std::chrono::milliseconds time) {
  const auto until = now() + time;
  const MutexLock lock(mutex_);
  while (!is_urgent_ && !is_stopping_) {
    if (changed_.wait_until(mutex_, until) == std::cv_status::timeout) break;
  }
  is_urgent_ = false;
  return !is_stopping_;
}

bool TopPoller::prepare_next(client::ClientError error, client::Route& route, client::Backoff& backoff) {
  const bool is_refused =
      error.kind == client::ClientError::Kind::kRefused && !client::is_elsewhere(error.code);
  if (route.after(error) == client::Route::Next::kAtOnce) return wait(std::chrono::milliseconds(0));
  push_news(Lost{std::move(error)});
  drop_actions();
  return wait(is_refused ? kAfterRefusal : backoff.next());
}

void TopPoller::run() {
  client::Connection connection(stop_.fd());
  TopReader reader(connection);
  client::Route route(addresses_);
  client::Backoff backoff(std::random_device{}());
  for (bool goes_on = true; goes_on;) {
    const bool is_new = !connection.is_open();
    if (is_new) {
      if (auto opened = connection.open(route.current(), "locksley-top", client::deadline_in(kConnectTime));
          !opened) {
        goes_on = prepare_next(std::move(opened.error()), route, backoff);
        continue;
      }
    }
    if (!perform_actions(reader)) continue;
    TopDemand demand;
    {
      const MutexLock lock(mutex_);
      demand = demand_;
    }
    auto snapshot = reader.read_snapshot(demand);
    if (!snapshot) {
      connection.close();
      if (client::is_elsewhere(snapshot.error().code)) {
        goes_on = prepare_next(std::move(snapshot.error()), route, backoff);
      } else {
        push_news(Lost{std::move(snapshot.error())});
        // Otherwise this thread would connect again and again without a pause.
        if (is_new) goes_on = wait(backoff.next());
      }
      continue;
    }
    backoff.reset();
    route.serving();
    snapshot->address = route.current().text();
    push_news(std::move(*snapshot));
    goes_on = wait(is_new ? std::min(kSecondLook, interval_) : interval_);
  }
}

bool TopPoller::perform_actions(TopReader& reader) {
  for (;;) {
    std::optional<TopAction> action;
    {
      const MutexLock lock(mutex_);
      if (actions_.empty()) return true;
      action = std::move(actions_.front());
      actions_.pop_front();
    }
    const auto reply = reader.ask(action->command);
    if (!reply) {
      push_news(TopAnswer{action->batch + ": " + reply.error().message, true});
      push_news(Lost{reply.error()});
      return false;
    }
    push_news(to_answer(*action, *reply));
  }
}

// Actions that were asked for without a connection are not sent later, when the user no longer
// expects them.
void TopPoller::drop_actions() {
  std::deque<TopAction> dropped;
  {
    const MutexLock lock(mutex_);
    dropped.swap(actions_);
  }
  for (const TopAction& action : dropped)
    push_news(TopAnswer{action.batch + ": not connected; nothing was done", true});
}

}  // namespace locksley::cli
