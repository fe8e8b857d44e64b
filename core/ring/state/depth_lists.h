// The queues of a ring by depth, so that the deepest are found without a search.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Lists of queues of about the same depth: class c has those with 2^(c-1) <= jobs < 2^c. Queues of
// class 0 have no jobs queued, and are in no list. A member of the ring, guarded by its mutex.
// update() is O(1); nothing fails.
class DepthLists {
 public:
  // After a change of the number of jobs queued.
  void update(RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes) {
    const auto depth_class = static_cast<std::uint8_t>(std::bit_width(queue.jobs_.size()));
    if (depth_class != queue.depth_class_) move(queue, depth_class);
  }
  // The depths of at least `count` of the deepest queues, in no order; of fewer if there are fewer,
  // or if `most` visits did not find as many.
  std::vector<std::uint64_t> deepest(std::size_t count, std::size_t most) const
      LOCKSLEY_REQUIRES(kFairNodes) {
    std::vector<std::uint64_t> depths;
    std::size_t looked = 0;
    // A queue of a deeper class is deeper: once there are enough of them, the other classes are not
    // visited.
    for (std::size_t i = lists_.size() - 1; i > 0 && depths.size() < count; --i) {
      for (const RingQueue* queue = lists_[i]; queue != nullptr && looked < most;
           queue = queue->next_as_deep_, ++looked) {
        depths.push_back(queue->jobs_.size());
      }
    }
    return depths;
  }

 private:
  void move(RingQueue& queue, std::uint8_t depth_class) LOCKSLEY_REQUIRES(kFairNodes) {
    if (queue.depth_class_ != 0) {
      (queue.previous_as_deep_ != nullptr ? queue.previous_as_deep_->next_as_deep_
                                          : lists_[queue.depth_class_]) = queue.next_as_deep_;
      if (queue.next_as_deep_ != nullptr) queue.next_as_deep_->previous_as_deep_ = queue.previous_as_deep_;
    }
    queue.depth_class_ = depth_class;
    queue.previous_as_deep_ = nullptr;
    queue.next_as_deep_ = depth_class == 0 ? nullptr : std::exchange(lists_[depth_class], &queue);
    if (queue.next_as_deep_ != nullptr) queue.next_as_deep_->previous_as_deep_ = &queue;
  }

  std::array<RingQueue*, 65> lists_{};
};

}  // namespace locksley
