// A deque with a mutex, for comparison with that of core.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/steal/steal.h"
#include "core/sync/mutex.h"

namespace locksley {

// The deque of core/steal/deque.h as a std::deque under a mutex: the baseline of its benchmarks,
// and the oracle of its tests. Handles and guarantees are the same, with two differences: every
// call blocks on the mutex, also len() and empty(), and a steal never loses a race.
template <class T>
class MutexDeque {
 public:
  class Owner;
  class Thief;

  MutexDeque() = default;
  MutexDeque(const MutexDeque&) = delete;
  MutexDeque& operator=(const MutexDeque&) = delete;

  [[nodiscard]] Owner owner() { return Owner(*this); }
  [[nodiscard]] Thief thief() { return Thief(*this); }

  std::size_t len() const {
    const MutexLock lock(mutex_);
    return values_.size();
  }
  bool empty() const { return len() == 0; }

 private:
  void set_owned(bool owned) {
    const MutexLock lock(mutex_);
    check(owned_ != owned, "a deque has two owners");
    owned_ = owned;
  }

  mutable Mutex mutex_;
  // The bottom is the back.
  std::deque<T> values_ LOCKSLEY_GUARDED_BY(mutex_);
  bool owned_ LOCKSLEY_GUARDED_BY(mutex_) = false;
};

// The bottom end, as Deque::Owner.
template <class T>
class MutexDeque<T>::Owner {
 public:
  Owner(Owner&& other) noexcept : deque_(std::exchange(other.deque_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(deque_, other.deque_);
    return *this;
  }
  ~Owner() {
    if (deque_ != nullptr) {
      deque_->set_owned(false);
    }
  }

  void push(T value) {
    const MutexLock lock(deque_->mutex_);
    deque_->values_.push_back(value);
  }

  [[nodiscard]] std::optional<T> pop() {
    const MutexLock lock(deque_->mutex_);
    if (deque_->values_.empty()) {
      return std::nullopt;
    }
    const T value = deque_->values_.back();
    deque_->values_.pop_back();
    return value;
  }

  std::size_t len() const { return deque_->len(); }
  bool empty() const { return deque_->empty(); }

  [[nodiscard]] Thief thief() const { return deque_->thief(); }

 private:
  friend class MutexDeque;
  explicit Owner(MutexDeque& deque) : deque_(&deque) { deque.set_owned(true); }

  MutexDeque* deque_;
};

// The top end, as Deque::Thief.
template <class T>
class MutexDeque<T>::Thief {
 public:
  Steal<T> steal() const {
    const MutexLock lock(deque_->mutex_);
    if (deque_->values_.empty()) {
      return {StealOutcome::kEmpty};
    }
    const T value = deque_->values_.front();
    deque_->values_.pop_front();
    return {StealOutcome::kStolen, value};
  }

  std::size_t len() const { return deque_->len(); }
  bool empty() const { return deque_->empty(); }

 private:
  friend class MutexDeque;
  explicit Thief(MutexDeque& deque) : deque_(&deque) {}

  MutexDeque* deque_;
};

}  // namespace locksley
