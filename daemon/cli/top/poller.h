// The thread of `locksley top` that asks the daemon.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "core/sync/mutex.h"
#include "core/sync/thread_annotations.h"
#include "daemon/cli/context/event.h"
#include "daemon/cli/top/control.h"
#include "daemon/cli/top/reader.h"
#include "proto/clients/cpp/backoff.h"
#include "proto/clients/cpp/error.h"
#include "proto/clients/cpp/route.h"
#include "proto/clients/cpp/url.h"

namespace locksley::cli {

// Asks the daemon for a TopSnapshot once an interval, on a thread of its own, so that a slow or
// distant daemon does not delay the keys. After a broken connection it connects again, for as long
// as it takes: at once, or after a pause if the connection gave no snapshot. Of several daemons it
// finds the one that serves.
//
// Owned by `top`. The thread of `top` calls all public functions; none of them blocks, except the
// destructor, which interrupts the poller's thread and joins it. A failure is reported as Lost
// among the news.
class TopPoller {
 public:
  struct Lost {
    client::ClientError error;
  };
  using News = std::variant<TopSnapshot, Lost, TopAnswer>;

  TopPoller(std::vector<client::Address> addresses, std::chrono::milliseconds interval);
  ~TopPoller();
  TopPoller(const TopPoller&) = delete;
  TopPoller& operator=(const TopPoller&) = delete;

  // Readable while there is news.
  int fd() const { return news_fd_; }
  // All news in order. Of several snapshots in a row only the last one is kept.
  std::vector<News> take() LOCKSLEY_EXCLUDES(mutex_);

  // Sets what the next snapshots contain in addition. If demand.detail is another batch than
  // before, the next snapshot is made at once.
  void look_at(TopDemand demand) LOCKSLEY_EXCLUDES(mutex_);
  // Sends the action as soon as the connection is free. Its reply is news; a snapshot follows it.
  void act(TopAction action) LOCKSLEY_EXCLUDES(mutex_);

 private:
  // Guess: longer than a handshake takes on any network that people work over.
  static constexpr std::chrono::milliseconds kConnectTime{5000};
  // A daemon that refused a password refuses it again, and slows down further attempts.
  static constexpr std::chrono::milliseconds kAfterRefusal{10'000};
  // Rates need two snapshots: the second one follows soon, so that the first rates appear soon.
  static constexpr std::chrono::milliseconds kSecondLook{300};

  // The function of the poller's thread.
  void run();
  // After a failed attempt: reports Lost, unless another address is tried at once, and waits. True
  // unless the poller stops.
  bool prepare_next(client::ClientError error, client::Route& route, client::Backoff& backoff);
  bool perform_actions(TopReader& reader) LOCKSLEY_EXCLUDES(mutex_);
  void drop_actions() LOCKSLEY_EXCLUDES(mutex_);
  // Waits until something is urgent, the poller stops, or `time` has passed. True unless the poller
  // stops.
  bool wait(std::chrono::milliseconds time) LOCKSLEY_EXCLUDES(mutex_);
  void push_news(News news) LOCKSLEY_EXCLUDES(mutex_);

  // Constant.
  const std::vector<client::Address> addresses_;
  const std::chrono::milliseconds interval_;
  const int news_fd_;  // an eventfd
  Event stop_;         // interrupts a connection that blocks

  Mutex mutex_;
  CondVar changed_;  // is_urgent_ or is_stopping_
  std::deque<News> news_ LOCKSLEY_GUARDED_BY(mutex_);
  std::deque<TopAction> actions_ LOCKSLEY_GUARDED_BY(mutex_);
  TopDemand demand_ LOCKSLEY_GUARDED_BY(mutex_);
  bool is_urgent_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  bool is_stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // the last member: it uses all the others
};

}  // namespace locksley::cli
