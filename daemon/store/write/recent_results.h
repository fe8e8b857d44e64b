// Results that are on the disk and still in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace locksley {
class Batch;
}

namespace locksley::daemon {

// Which results are on the disk and still in memory, for clients that read them soon: oldest first,
// so that the oldest leave memory first.
//
// A member of GroupCommit, which guards it; the writer's thread alone. A batch that has been
// destroyed has no rows, but its entry takes memory, and so does the control block of its
// shared_ptr. So each time that there are twice as many entries as after the last check, all
// entries are checked, and those of destroyed batches are removed: O(1) for each added entry.
// Nothing blocks. Only allocation fails.
class RecentResults {
 public:
  // The memory that an entry takes besides its rows: the entry itself and the control block of its
  // batch.
  static constexpr std::size_t kEntryBytes = 96;

  // The rows of `batch` below `end` are on the disk; those of them that were not before take
  // `row_bytes` bytes of memory.
  void add(std::weak_ptr<Batch> batch, std::uint64_t end, std::size_t row_bytes);
  // Frees the oldest rows until the rest of them, with their entries, takes at most
  // `down_to_bytes`.
  void free(std::size_t down_to_bytes);

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  void remove_gone();

  struct Entry {
    std::weak_ptr<Batch> batch;
    std::uint64_t end;  // of the batch's rows that are on the disk
    std::size_t bytes;
  };
  // A guess: less than a megabyte, so that small numbers are never checked.
  static constexpr std::size_t kFewest = 4096;

  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;          // of all entries
  std::size_t look_at_ = kFewest;  // remove_gone() is due at so many entries
};

}  // namespace locksley::daemon
