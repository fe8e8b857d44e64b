#include "core/idle.h"

#include <algorithm>

namespace locksley {

bool Idle::try_search() {
  std::uint64_t state = state_.load();
  do {
    if (2 * (searching(state) + 1) > std::max<std::uint32_t>(workers_.load(), 2)) return false;
  } while (!state_.compare_exchange_weak(state, state + kSearching));
  return true;
}

bool Idle::end_search() { return searching(state_.fetch_sub(kSearching)) == 1; }

void Idle::enter_park(Sleeper& sleeper, bool was_searching) {
  {
    const std::lock_guard lock(mutex_);
    sleeper.listed = true;
    parked_.push_back(&sleeper);
    state_.fetch_add(kParked - (was_searching ? kSearching : 0));
  }
  AsymmetricBarrier::heavy();
}

void Idle::leave_park(Sleeper& sleeper) {
  {
    const std::lock_guard lock(mutex_);
    if (sleeper.listed) {
      sleeper.listed = false;
      parked_.erase(std::find(parked_.begin(), parked_.end(), &sleeper));
      state_.fetch_add(kSearching - kParked);
      return;
    }
  }
  sleeper.parker.park();  // the waker has counted it as searching, and gives or gave its token
}

void Idle::after_park(Sleeper& sleeper) {
  const std::lock_guard lock(mutex_);
  if (!sleeper.listed) return;
  sleeper.listed = false;
  parked_.erase(std::find(parked_.begin(), parked_.end(), &sleeper));
  state_.fetch_add(kSearching - kParked);
}

Idle::Sleeper* Idle::unlist_parked() {
  if (parked_.empty()) return nullptr;
  Sleeper* sleeper = parked_.back();
  parked_.pop_back();
  sleeper->listed = false;
  state_.fetch_add(kSearching - kParked);
  return sleeper;
}

void Idle::wake_one() {
  Sleeper* sleeper;
  {
    const std::lock_guard lock(mutex_);
    if (searching(state_.load()) != 0) return;  // somebody was woken meanwhile
    sleeper = unlist_parked();
  }
  if (sleeper != nullptr) sleeper->parker.unpark();
}

void Idle::wake_for_task(const void* batch) {
  Sleeper* sleeper = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (searching(state_.load()) != 0) return;
    sleeper = unlist_parked();
    if (sleeper == nullptr) {
      const auto helper = std::find_if(helpers_.begin(), helpers_.end(),
                                       [batch](const Sleeper* s) { return s->batch == batch; });
      if (helper == helpers_.end()) return;
      sleeper = *helper;
      helpers_.erase(helper);
      sleeper->listed = false;
      state_.fetch_sub(kHelpers);
    }
  }
  sleeper->parker.unpark();
}

void Idle::wake_all() {
  std::vector<Sleeper*> woken;
  {
    const std::lock_guard lock(mutex_);
    while (Sleeper* sleeper = unlist_parked()) woken.push_back(sleeper);
  }
  for (Sleeper* sleeper : woken) sleeper->parker.unpark();
}

void Idle::enter_help(Sleeper& sleeper, const void* batch) {
  {
    const std::lock_guard lock(mutex_);
    sleeper.listed = true;
    sleeper.batch = batch;
    helpers_.push_back(&sleeper);
    state_.fetch_add(kHelpers);
  }
  AsymmetricBarrier::heavy();
}

void Idle::leave_help(Sleeper& sleeper) {
  const std::lock_guard lock(mutex_);
  if (!sleeper.listed) return;
  sleeper.listed = false;
  helpers_.erase(std::find(helpers_.begin(), helpers_.end(), &sleeper));
  state_.fetch_sub(kHelpers);
}

}  // namespace locksley
