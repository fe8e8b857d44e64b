#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/steal.h"

namespace locksley {

// The deque of core/deque.h with a mutex around a std::deque: the baseline of its benchmarks and the oracle
// of its tests. Same handles, same promises, but that everything blocks on the mutex, len() and empty()
// included, and that a steal never loses a race.
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
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  bool empty() const { return len() == 0; }

 private:
  void set_owned(bool owned) {
    const std::lock_guard lock(mutex_);
    check(owned_ != owned, "a deque has two owners");
    owned_ = owned;
  }

  mutable std::mutex mutex_;
  // Guarded by mutex_. The bottom is the back.
  std::deque<T> values_;
  bool owned_ = false;
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
    const std::lock_guard lock(deque_->mutex_);
    deque_->values_.push_back(value);
  }

  [[nodiscard]] std::optional<T> pop() {
    const std::lock_guard lock(deque_->mutex_);
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
    const std::lock_guard lock(deque_->mutex_);
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
