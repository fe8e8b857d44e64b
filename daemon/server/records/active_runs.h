// The batches of RUN that are not over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

// The batches of RUN that are not over; they have no id and are in no list. Those with a sequence
// number are owned here, and found by it. The others are only counted and visited here: their
// commands own them.
//
// A member of the Registry. The I/O thread only. O(1). Only allocation fails.
class ActiveRuns {
 public:
  std::size_t size() const { return records_.size(); }

  void add(const std::shared_ptr<BatchRecord>& record) LOCKSLEY_REQUIRES(kIoThread) {
    record->place_among_runs = records_.size();
    records_.push_back(record.get());
    if (record->sequence != 0) by_sequence_.emplace(record->sequence, record);
  }
  // The batch is over. Needs: it was added, and the caller holds it.
  void remove(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    BatchRecord* const last = records_.back();
    records_[last->place_among_runs = record.place_among_runs] = last;
    records_.pop_back();
    if (record.sequence != 0) by_sequence_.erase(record.sequence);
  }
  // Null if there is none of this number.
  BatchRecord* find(std::uint64_t sequence) const {
    const auto found = by_sequence_.find(sequence);
    return found == by_sequence_.end() ? nullptr : found->second.get();
  }
  // Visits at most `most` batches; a visit may end batches. Pass size() as `left` in the first
  // call. True: each batch of the first call was visited, or is over.
  bool visit(std::size_t& left, std::size_t most, const std::function<void(BatchRecord&)>& visit) const {
    // From the last to the first: when a batch ends, the last one, which was visited already, takes
    // its place.
    for (; most != 0; --most) {
      left = std::min(left, records_.size());
      if (left == 0) break;
      visit(*records_[--left]);
    }
    return left == 0;
  }

 private:
  std::vector<BatchRecord*> records_;  // in no order; BatchRecord::place_among_runs is the place of each
  std::unordered_map<std::uint64_t, std::shared_ptr<BatchRecord>> by_sequence_;
};

}  // namespace locksley::daemon
