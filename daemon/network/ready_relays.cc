#include "daemon/network/ready_relays.h"

#include <asio/post.hpp>
#include <iterator>
#include <utility>

#include "daemon/network/counted_lock.h"
#include "daemon/network/relay_end.h"

namespace locksley::daemon {

void ReadyRelays::add(std::vector<Entry>& entries, OwnedCounter& waits) {
  if (entries.empty()) return;
  bool wakes = false;
  {
    const CountedLock lock(mutex_, waits);
    if (entries_.empty()) {
      entries_.swap(entries);
    } else {
      entries_.insert(entries_.end(), std::move_iterator(entries.begin()), std::move_iterator(entries.end()));
    }
    wakes = !std::exchange(is_woken_, true);
  }
  entries.clear();
  if (wakes) wake();
}

void ReadyRelays::add(std::shared_ptr<Relay> relay, Relay::News news, OwnedCounter& waits) {
  bool wakes = false;
  {
    const CountedLock lock(mutex_, waits);
    entries_.push_back({std::move(relay), news});
    wakes = !std::exchange(is_woken_, true);
  }
  if (wakes) wake();
}

void ReadyRelays::wake() {
  asio::post(executor_, [this] {
    kIoThread.assert_held();
    run();
  });
}

void ReadyRelays::run() {
  {
    const MutexLock lock(mutex_);
    taken_.swap(entries_);
    is_woken_ = false;
  }
  // The entry keeps the relay alive while its connection may end within the call.
  for (const Entry& entry : taken_) {
    if (RelayEnd* const end = entry.relay->end()) end->take_news(entry.news);
  }
  taken_.clear();
}

}  // namespace locksley::daemon
