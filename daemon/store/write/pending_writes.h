// Writes that wait to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/store/write/writes.h"

namespace locksley::daemon {

// Writes in the order in which they came. A change of a batch, or of a customer, replaces the
// change before it, since each has the whole row: so however often clients change batches while the
// disk is slow or fails, there is one change for each batch, and one for each customer. If the
// writes are written in parts (Written::kInParts), a change before a step stays before it: so there
// may be one more change for each step.
//
// A member of WriteQueue, StagedWrites and WriteBacklog, and guarded like them. Nothing blocks.
// Only allocation fails. Adding is O(1) on average.
class PendingWrites {
 public:
  using Writes = std::vector<StoreWrite>;
  enum class Written : std::uint8_t { kAtOnce, kInParts };

  PendingWrites() = default;
  explicit PendingWrites(Written written) : written_(written) {}
  void add(StoreWrite&& write);
  // All writes; replaced ones are std::monostate.
  const Writes& all() const { return writes_; }
  // Takes all writes out. The next writes go into the memory of `spare`, which is empty: so they,
  // which are large, need not be moved again and again while their number grows.
  Writes take(Writes spare = {});
  // Takes out the first `count` of all(). O(all()). Needs: each std::monostate in all() stands for
  // a replaced write, and none was added.
  Writes take_first(std::size_t count);

  bool empty() const { return writes_.empty(); }
  // The number of writes, without replaced ones.
  std::size_t size() const { return writes_.size() - replaced_; }
  // The sum of cost_of(), without replaced ones.
  std::size_t cost() const { return cost_; }

 private:
  // Appends the write. Unless it is the first change of its batch or customer, it replaces the one
  // at the place `known`. `known` becomes its place.
  void append(StoreWrite&& write, std::size_t& known, bool is_first);
  // Removes replaced ones.
  void compact();
  // Finds the places of the changes again, after some writes were removed.
  void find_changes();

  Written written_ = Written::kAtOnce;
  Writes writes_;
  std::size_t replaced_ = 0;
  std::size_t cost_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> changes_;  // by batch, the place of its last change
  std::unordered_map<std::string, std::size_t> customers_;  // by customer_key(), likewise
};

}  // namespace locksley::daemon
