// The discards of results that the store has yet to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

// The discards of results of retired batches that the store has yet to write: a read of such a
// batch from the store still shows the discarded results. While the disk fails there may be very
// many.
//
// Owned by Batches; StoredBatches adds to it, and RestoredBatches reads it. The I/O thread only.
// Nothing blocks. Each call takes O(log n).
class PendingDiscards {
 public:
  struct Discard {
    std::uint64_t rows;   // discarded so far
    std::uint64_t bytes;  // of these
  };

  // A discard of the batch that will be written with `ticket`. It takes the place of the batch's
  // last one.
  void add(std::uint64_t sequence, Ticket ticket, Discard discard) LOCKSLEY_REQUIRES(kIoThread) {
    const auto [at, is_new] = by_sequence_.try_emplace(sequence);
    if (!is_new) by_ticket_.erase({at->second.ticket, sequence});
    at->second = {ticket, discard};
    by_ticket_.emplace(ticket, sequence);
  }

  // The discard of the batch that the store has not written, given that it has written everything
  // up to `written`; none: there is none. Also forgets up to kForgottenAtOnce discards that are
  // written: more than one add() brings, so the map stays small.
  std::optional<Discard> find(std::uint64_t sequence, Ticket written) LOCKSLEY_REQUIRES(kIoThread) {
    for (int left = kForgottenAtOnce; left != 0 && !by_ticket_.empty(); --left) {
      const auto first = by_ticket_.begin();
      if (first->first > written) break;
      by_sequence_.erase(first->second);
      by_ticket_.erase(first);
    }
    const auto found = by_sequence_.find(sequence);
    if (found == by_sequence_.end() || found->second.ticket <= written) return std::nullopt;
    return found->second.discard;
  }

  // Includes written discards that are not forgotten yet.
  std::size_t size() const LOCKSLEY_REQUIRES(kIoThread) { return by_sequence_.size(); }

 private:
  static constexpr int kForgottenAtOnce = 16;  // some 2 us; guess

  struct Entry {
    Ticket ticket = 0;
    Discard discard{};
  };
  std::map<std::uint64_t, Entry> by_sequence_ LOCKSLEY_GUARDED_BY(kIoThread);
  // The same entries, each with its sequence.
  std::set<std::pair<Ticket, std::uint64_t>> by_ticket_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
