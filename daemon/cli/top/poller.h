#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "daemon/cli/event.h"
#include "daemon/cli/top/control.h"
#include "daemon/cli/top/reader.h"
#include "proto/client/error.h"
#include "proto/client/url.h"

namespace locksley::cli {

// Looks at the daemon again and again, on a thread of its own, so that a daemon that is slow or far away
// holds up nobody who types; connects again, as long as it takes, when the connection breaks.
//
// Owned by `top`, whose thread calls everything; nothing of that blocks. The destructor interrupts whatever
// is under way and joins.
class TopPoller {
 public:
  struct Lost {
    client::ClientError error;
  };
  using News = std::variant<TopSnapshot, Lost, TopAnswer>;

  TopPoller(client::Address address, std::chrono::milliseconds interval);
  ~TopPoller();
  TopPoller(const TopPoller&) = delete;
  TopPoller& operator=(const TopPoller&) = delete;

  // Readable while there is news.
  int fd() const { return news_fd_; }
  // In their order; of several looks that nobody took, the last.
  std::vector<News> take();

  // What the next look is to bring beside the rest. Another batch to be looked at closely: now.
  void look_at(TopDemand demand);
  // The daemon is told as soon as it can be; its answer is news. Then there is a look at what came of it.
  void act(TopAction action);

 private:
  // A guess: longer than a handshake takes on any network that people work over.
  static constexpr std::chrono::milliseconds kConnectTime{5000};
  // Who refuses a password once will do so again, and watches how often it is tried.
  static constexpr std::chrono::milliseconds kAfterRefusal{10'000};
  // Rates need a second look: soon, so that nobody waits for a first sight of them.
  static constexpr std::chrono::milliseconds kSecondLook{300};

  void run(const std::stop_token& stop);
  bool perform_actions(TopReader& reader);
  void drop_actions();
  void wait(const std::stop_token& stop, std::chrono::milliseconds time);
  void tell(News news);

  const client::Address address_;
  const std::chrono::milliseconds interval_;
  const int news_fd_;  // an eventfd
  Event stop_;         // interrupts what blocks in the connection

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::deque<News> news_;
  std::deque<TopAction> actions_;
  TopDemand demand_;
  bool is_urgent_ = false;

  std::jthread thread_;
};

}  // namespace locksley::cli
