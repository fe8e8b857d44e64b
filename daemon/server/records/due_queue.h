#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <tuple>

#include "daemon/base/time.h"

namespace locksley::daemon {

// What can be due for a batch.
enum class Due : std::uint8_t {
  kDeadline,  // what has not started is cancelled
  kClose,     // an open batch closes itself
  kForget,    // a batch that is over leaves
  kStart,     // its DELAY has passed
  kRetry,     // jobs that failed are tried again
  kProgress,  // a progress event is published
};

// Instants, each with a batch's sequence and what is due then; in their order. A plain container of the I/O
// thread; O(log n). Its owner arms one timer for next() and no other, so that the thread does not wake while
// nothing is due.
class DueQueue {
 public:
  struct Item {
    Instant at;
    std::uint64_t sequence;
    Due kind;
    friend bool operator<(const Item& a, const Item& b) {
      return std::tie(a.at, a.sequence, a.kind) < std::tie(b.at, b.sequence, b.kind);
    }
  };

  void add(const Item& item) { items_.insert(item); }
  void remove(const Item& item) { items_.erase(item); }

  bool empty() const { return items_.empty(); }
  // Needs: not empty.
  const Item& next() const { return *items_.begin(); }

 private:
  std::set<Item> items_;
};

}  // namespace locksley::daemon
