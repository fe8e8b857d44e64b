// The connections that stream jobs into open batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/base/time.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// The connections that stream jobs into open batches (OPEN, ADD, ADDAT). After its connection has
// gone, a batch closes itself after limits.open_timeout, unless another connection takes over the
// stream by one of these commands.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails.
class Streams {
 public:
  explicit Streams(Registry& registry) : registry_(registry) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // From now on this connection streams the batch in, and no other does.
  void take_over(BatchRecord& record, std::uint64_t connection) LOCKSLEY_REQUIRES(kIoThread) {
    remove(record);
    if (record.due.close != kNever) registry_.schedule(record, Due::kClose, kNever);
    add(record, connection);
  }
  // No connection streams the batch in: it closes itself at `close_at`, unless one takes it over.
  void abandon(BatchRecord& record, Instant close_at) LOCKSLEY_REQUIRES(kIoThread) {
    remove(record);
    add(record, kNone);
    registry_.schedule(record, Due::kClose, close_at);
  }
  // The connection has ended: abandons at most `most` of its batches. False: it has more; call
  // again.
  bool connection_ended(std::uint64_t connection, Instant close_at, std::size_t most)
      LOCKSLEY_REQUIRES(kIoThread) {
    for (; most != 0; --most) {
      const auto found = first_of_.find(connection);
      if (found == first_of_.end()) return true;
      abandon(*found->second, close_at);
    }
    return !first_of_.contains(connection);
  }
  // The connection has ended: abandons a few of its batches at once, and the others in slices.
  // `line`: of its user. `changed` is called after each part: the next due time may be earlier now.
  void abandon_all(std::uint64_t connection, Instant close_at, Slices& slices, LineNumber line,
                   std::function<void()> changed) LOCKSLEY_REQUIRES(kIoThread) {
    constexpr std::size_t kFewBatches = 64;  // guess: some tens of microseconds
    const bool is_done = connection_ended(connection, close_at, kFewBatches);
    changed();
    if (is_done) return;
    auto go_on = [this, connection, close_at, changed = std::move(changed)](Instant until) {
      kIoThread.assert_held();
      bool is_last = false;
      do {
        is_last = connection_ended(connection, close_at, kFewBatches);
      } while (!is_last && now() < until);
      changed();
      return is_last;
    };
    slices.add(std::move(go_on), line);
  }
  // From now on the end of a connection changes nothing.
  void detach_all() LOCKSLEY_REQUIRES(kIoThread) {
    for (const auto& [connection, first] : std::exchange(first_of_, {})) {
      for (BatchRecord* each = first; each != nullptr;) {
        BatchRecord& record = *std::exchange(each, each->streamed.next);
        record.streamed = {};
        add(record, kNone);
      }
    }
  }
  // The batch is no longer listed: it is over, or moves to another connection.
  void remove(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    if (!record.streamed.is_listed) return;
    const auto [connection, is_listed, previous, next] = record.streamed;
    if (next != nullptr) next->streamed.previous = previous;
    if (previous != nullptr) {
      previous->streamed.next = next;
    } else if (next != nullptr) {
      first_of_[connection] = next;
    } else {
      first_of_.erase(connection);
    }
    record.streamed = {.connection = connection};
  }

  // Visits every open batch; `visit` does not change this object.
  void for_each(const std::function<void(BatchRecord&)>& visit) LOCKSLEY_REQUIRES(kIoThread) {
    for (const auto& [connection, first] : first_of_) {
      for (BatchRecord* each = first; each != nullptr; each = each->streamed.next) visit(*each);
    }
  }

 private:
  static constexpr std::uint64_t kNone = 0;
  // Needs: it is in no list.
  void add(BatchRecord& record, std::uint64_t connection) LOCKSLEY_REQUIRES(kIoThread) {
    BatchRecord*& first = first_of_[connection];
    if (first != nullptr) first->streamed.previous = &record;
    record.streamed = {.connection = connection, .is_listed = true, .next = first};
    first = &record;
  }

  Registry& registry_;
  // The first batch of each connection's list. The records themselves are the nodes of the lists,
  // so each step is O(1), however many batches a connection has. kNone: the batches whose
  // connection has gone.
  std::unordered_map<std::uint64_t, BatchRecord*> first_of_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
