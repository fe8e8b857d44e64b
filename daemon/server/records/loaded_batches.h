// The records of retired batches that were loaded last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

// The records of retired batches that were loaded last, and which loads another thread has begun.
//
// The records take at most kMostBytes, unless the latest alone takes more. No account bounds them:
// what a batch keeps about failed jobs counts in none before the jobs are queued again
// (Batch::restore()), and a client may ask
// for the STATUS of many old batches.
//
// A member of the Registry. The I/O thread only. Nothing blocks. Only allocation fails.
class LoadedBatches {
 public:
  using Record = std::shared_ptr<BatchRecord>;

  // Null: it is not among them.
  BatchRecord* find(std::uint64_t sequence) const {
    const auto found = std::ranges::find(records_, sequence, &BatchRecord::sequence);
    return found == records_.end() ? nullptr : found->get();
  }
  // The same; it stays until kMost others, or kMostBytes of them, were used.
  Record use(std::uint64_t sequence) {
    const auto found = std::ranges::find(records_, sequence, &BatchRecord::sequence);
    if (found == records_.end()) return nullptr;
    std::rotate(found, found + 1, records_.end());
    return records_.back();
  }
  // Needs: it is not one of them.
  void add(Record record) {
    records_.push_back(std::move(record));
    // The latest stays, however large it is: its caller needs it.
    std::size_t first = records_.size() - 1;
    for (std::uint64_t bytes = records_[first]->memory_bytes(); first != 0; --first) {
      bytes += records_[first - 1]->memory_bytes();
      if (records_.size() - first == kMost || bytes > kMostBytes) break;
    }
    records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(first));
  }
  // The batch is no longer retired. What another thread has read of it is outdated.
  void remove(std::uint64_t sequence) {
    std::erase_if(records_, [sequence](const Record& record) { return record->sequence == sequence; });
    outdate(sequence);
  }

  // Another thread begins to read the batch, which is retired.
  void begin(std::uint64_t sequence) { begun_.insert(sequence); }
  // The rows of the batch change, so rows that another thread has read may be outdated.
  void outdate(std::uint64_t sequence) { begun_.erase(sequence); }
  // The other thread has read the batch. Without effect if the rows are outdated, or if the batch
  // was loaded meanwhile.
  void end(Record record) {
    if (begun_.erase(record->sequence) != 0 && find(record->sequence) == nullptr) add(std::move(record));
  }

 private:
  static constexpr std::size_t kMost = 64;  // guess: what a few clients ask for again
  // Guess: ten records with as many notes as there may be.
  static constexpr std::uint64_t kMostBytes = 16U << 20;

  std::vector<Record> records_;    // the latest at the end
  std::set<std::uint64_t> begun_;  // sequence numbers
};

}  // namespace locksley::daemon
