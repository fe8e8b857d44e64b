// A piece of work that is done in slices and ends with its owner.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/base/loop/slices.h"

namespace locksley::daemon {

// One long piece of work of its owner, done in Slices: at most one at a time, and only while the
// owner lives. For work that has no owner, or of which an owner has many pieces at once,
// Slices::add() is enough.
//
// A member of its owner. The thread of the Slices only. Nothing blocks or fails. The Slices outlive
// each call, but not the destructor.
class SlicedWork {
 public:
  explicit SlicedWork(Slices& slices) : slices_(slices) {}
  ~SlicedWork() { cancel(); }
  SlicedWork(const SlicedWork&) = delete;
  SlicedWork& operator=(const SlicedWork&) = delete;

  // Begins the work, in the next round at the earliest. If other work is under way, that work goes
  // on instead. If the work itself calls start(), it is called once more, even if it then returns
  // true. So the work always sees what the caller has added.
  void start(Slices::Work work, LineNumber line = kDaemonsLine) {
    if (!is_under_way()) return restart(std::move(work), line);
    state_->must_go_on = true;
  }
  // Begins the work, and abandons the work that is under way.
  void restart(Slices::Work work, LineNumber line = kDaemonsLine) {
    const std::uint64_t number = ++state_->last;
    *state_ = {.last = number, .under_way = number};
    auto go_on = [state = state_, number, work = std::move(work)](Instant until) mutable {
      if (state->under_way != number) return true;  // abandoned
      state->must_go_on = false;
      const bool is_done = work(until) && !state->must_go_on;
      if (state->under_way != number) return true;
      if (is_done) state->under_way = 0;
      return is_done;
    };
    slices_.add(std::move(go_on), line);
  }
  // Abandons the work that is under way. The work itself may call this, and may destroy the owner.
  void cancel() { state_->under_way = 0; }

  // Whether work has begun and is not done; true within the work.
  bool is_under_way() const { return state_->under_way != 0; }

 private:
  struct State {
    std::uint64_t last = 0;       // number of the work that began last
    std::uint64_t under_way = 0;  // the number; 0: none is under way
    bool must_go_on = false;      // start() was called since the last slice began
  };
  Slices& slices_;
  // Shared with the work that waits in the Slices; the Slices drop it last if the owner is
  // destroyed first.
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace locksley::daemon
