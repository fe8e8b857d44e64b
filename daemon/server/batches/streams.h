#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "daemon/base/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// The connections that stream jobs into open batches (OPEN, ADD). A batch whose connection has gone closes itself
// after limits.open_timeout, unless another connection adds to it.
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
  // The connection has ended: its batches are abandoned.
  void connection_ended(std::uint64_t connection, Instant close_at) LOCKSLEY_REQUIRES(kIoThread) {
    const auto found = by_connection_.find(connection);
    if (found == by_connection_.end()) return;
    const auto sequences = found->second;
    for (const std::uint64_t sequence : sequences) abandon(*registry_.by_sequence(sequence), close_at);
  }
  // Connections do not matter any more: the end of one changes nothing from now on.
  void detach_all() LOCKSLEY_REQUIRES(kIoThread) {
    for (const auto& [connection, sequences] : std::exchange(by_connection_, {})) {
      for (const std::uint64_t sequence : sequences) add(*registry_.by_sequence(sequence), kNone);
    }
  }
  // The batch is over.
  void remove(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    const auto found = by_connection_.find(record.opener);
    if (found == by_connection_.end()) return;
    found->second.erase(record.sequence);
    if (found->second.empty()) by_connection_.erase(found);
  }

  // Visits every open batch; `visit` does not change this object.
  void for_each(const std::function<void(BatchRecord&)>& visit) LOCKSLEY_REQUIRES(kIoThread) {
    for (const auto& [connection, sequences] : by_connection_) {
      for (const std::uint64_t sequence : sequences) visit(*registry_.by_sequence(sequence));
    }
  }

 private:
  static constexpr std::uint64_t kNone = 0;
  void add(BatchRecord& record, std::uint64_t connection) LOCKSLEY_REQUIRES(kIoThread) {
    record.opener = connection;
    by_connection_[connection].insert(record.sequence);
  }

  Registry& registry_;
  // By sequence. kNone: those whose connection has gone.
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>> by_connection_
      LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
