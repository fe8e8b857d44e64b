// The queue of the replies of the client port and of the HTTP API that wait for the store.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/server/state/early_replies.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

// The queue of the replies to clients and of the HTTP API that wait for the store: a reply that
// reports a write goes out once the write is on the disk. The queue has tickets and callbacks; the
// bytes of a connection's reply wait in its SessionOutput, since the replies after it wait, too.
// Replies to remote workers wait elsewhere: AwaitedTickets (daemon/worker_port/awaited_tickets.h).
//
// Owned by ServerState. The I/O thread only. Nothing blocks. A failed write is an outcome like any
// other: the callback gets its error.
class HeldReplies {
 public:
  // Called once: with an empty text when the writes are on the disk, else with the error of the
  // store. It may hold further replies.
  using Settled = std::function<void(const std::string& error)>;
  using Queue = std::multimap<Ticket, Settled>;
  using Place = Queue::iterator;

  HeldReplies() = default;
  HeldReplies(const HeldReplies&) = delete;
  HeldReplies& operator=(const HeldReplies&) = delete;

  // Needs: no outcome that covers the ticket was passed to settle_some(). Functions of equal
  // tickets are called in the order of hold().
  Place hold(Ticket ticket, Settled settled) LOCKSLEY_REQUIRES(kIoThread) {
    if (spare_.empty()) return queue_.emplace_hint(queue_.end(), ticket, std::move(settled));
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = ticket;
    node.mapped() = std::move(settled);
    return queue_.insert(queue_.end(), std::move(node));
  }
  // Its callback will not be called. Needs: it was not called, and is not being called.
  void withdraw(Place place) LOCKSLEY_REQUIRES(kIoThread) { queue_.erase(place); }
  bool empty() const LOCKSLEY_REQUIRES(kIoThread) { return queue_.empty(); }
  std::size_t size() const LOCKSLEY_REQUIRES(kIoThread) { return queue_.size(); }
  // The replies that the store's writer may send itself.
  EarlyReplies& early() { return early_; }

  // Removes entries up to the outcome's ticket, in the order of their tickets, and calls each one's
  // function; until about `until`, since one client may have very many. The replies of a failed
  // write become errors, so one function may then take as long as many others. True: none is left.
  // If false, call again with the same outcome before any later one.
  bool settle_some(const Outcome& outcome, Instant until) LOCKSLEY_REQUIRES(kIoThread) {
    for (int n = 1; !queue_.empty() && queue_.begin()->first <= outcome.up_to; ++n) {
      auto first = queue_.extract(queue_.begin());
      first.mapped()(outcome.error);
      if (spare_.size() < kMostSpare) spare_.push_back(std::move(first));
      const bool is_due = n % kBetweenLooks == 0 || !outcome.error.empty();
      if (is_due && now() >= until) return false;
    }
    return true;
  }

 private:
  static constexpr int kBetweenLooks = 32;        // at the clock; some 30 us; guess
  static constexpr std::size_t kMostSpare = 128;  // guess: some 10 KiB

  Queue queue_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::vector<Queue::node_type> spare_ LOCKSLEY_GUARDED_BY(kIoThread);  // for the next replies
  EarlyReplies early_;  // of two threads, with a mutex of its own
};

}  // namespace locksley::daemon
