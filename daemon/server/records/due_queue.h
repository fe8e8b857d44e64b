// What is due for batches, and when.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/base/time.h"

namespace locksley::daemon {

// The kinds of due items of a batch.
enum class Due : std::uint8_t {
  kDeadline,  // jobs that have not started are cancelled
  kClose,     // an open batch closes itself
  kForget,    // a batch that is over leaves
  kStart,     // its DELAY has passed
  kRetry,     // jobs that failed are tried again
  kProgress,  // a progress event is published
};

// The due actions of batches, in the order of their instants. Tenants take turns, each with its
// earliest due item. So a tenant with very many due batches does not delay the others. A plain
// container of the I/O thread; O(log n), next_due() O(tenants). Its owner arms one timer for
// earliest() and no other, so that the thread does not wake while nothing is due.
class DueQueue {
 public:
  struct Item {
    Instant at;
    std::uint64_t sequence;
    Due kind;
    std::uint32_t tenant;  // its number
    friend bool operator<(const Item& a, const Item& b) {
      return std::tie(a.at, a.sequence, a.kind) < std::tie(b.at, b.sequence, b.kind);
    }
  };

  void add(const Item& item) {
    if (item.tenant >= by_tenant_.size()) by_tenant_.resize(item.tenant + 1);
    Items& items = by_tenant_[item.tenant];
    const auto place = items.insert(item).first;
    if (place != items.begin()) return;
    if (items.size() == 1) {
      firsts_.insert(item);
    } else {
      replace_first(*std::next(place), item);
    }
  }
  // Needs: it was added.
  void remove(const Item& item) {
    Items& items = by_tenant_[item.tenant];
    const auto place = items.find(item);
    const bool is_first = place == items.begin();
    items.erase(place);
    if (!is_first) return;
    if (items.empty()) {
      firsts_.erase(item);
    } else {
      replace_first(item, *items.begin());
    }
  }

  // Instant::max(): it is empty.
  Instant earliest() const { return firsts_.empty() ? Instant::max() : firsts_.begin()->at; }
  // The item that is due at `at`, of the tenant whose turn it is; the item stays in the queue.
  // None: nothing is due.
  std::optional<Item> next_due(Instant at) {
    if (earliest() > at) return std::nullopt;
    do {
      last_ = (last_ + 1) % by_tenant_.size();
    } while (by_tenant_[last_].empty() || by_tenant_[last_].begin()->at > at);
    return *by_tenant_[last_].begin();
  }

 private:
  using Items = std::set<Item>;

  void replace_first(const Item& before, const Item& after) {
    auto node = firsts_.extract(before);
    node.value() = after;
    firsts_.insert(std::move(node));
  }

  std::vector<Items> by_tenant_;  // by number
  Items firsts_;                  // the first item of each tenant that has any
  std::size_t last_ = 0;          // the tenant that had the last turn
};

}  // namespace locksley::daemon
