// Writes that wait to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/store/writes.h"

namespace locksley::daemon {

// Writes in the order in which they came. A change of a batch replaces the change before it, since each has the
// whole row: so however often clients change batches while the disk is slow or fails, there is one change a batch.
//
// A member of GroupCommit, guarded by it. Nothing blocks. Only allocation fails. Adding is O(1) on average.
class PendingWrites {
 public:
  using Writes = std::vector<StoreWrite>;

  void add(StoreWrite write);
  // All of them; replaced ones are std::monostate.
  const Writes& all() const { return writes_; }
  // The same, and none is left.
  Writes take();

  bool empty() const { return writes_.empty(); }
  // Without replaced ones.
  std::size_t size() const { return writes_.size() - replaced_; }

 private:
  // Removes replaced ones.
  void compact();

  Writes writes_;
  std::size_t replaced_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> changes_;  // by batch, the place of its last change
};

}  // namespace locksley::daemon
