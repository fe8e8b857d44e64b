// What takes the place of core/sync/atomics.h under the explorer: atomics, barrier, mutex, parker
// and futex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/sync/atomic_pair.h"
#include "core/sync/thread_annotations.h"
#include "tests/model/explorer.h"

namespace locksley::model {

// std::atomic, as far as core uses it.
template <class T>
class Atomic {
 public:
  Atomic() : Atomic(T{}) {}
  Atomic(T value) : word_(word_of(value)) {}  // as std::atomic: implicit
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const {
    Explorer::before_operation();
    return value_of(Explorer::load(word_, order));
  }

  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    Explorer::before_operation();
    Explorer::store(word_, word_of(value), order);
  }

  T exchange(T value, std::memory_order = std::memory_order_seq_cst) { return change(value); }
  T fetch_add(T value, std::memory_order = std::memory_order_seq_cst) { return change_by(value, T{0}); }
  T fetch_sub(T value, std::memory_order = std::memory_order_seq_cst) { return change_by(T{0}, value); }

  bool compare_exchange_strong(T& expected, T value) {
    begin_change();
    if (word_ == word_of(expected)) {
      word_ = word_of(value);
      return true;
    }
    expected = value_of(word_);
    return false;
  }
  bool compare_exchange_weak(T& expected, T value) { return compare_exchange_strong(expected, value); }

  // What memory holds, for the conditions of waits: no operation.
  T peek() const { return value_of(word_); }

 private:
  static std::uint64_t word_of(T value) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
  }
  static T value_of(std::uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }

  static void begin_change() {
    Explorer::before_operation();
    Explorer::drain();
  }
  T change(T value) {
    begin_change();
    return value_of(std::exchange(word_, word_of(value)));
  }
  T change_by(T more, T less) {
    begin_change();
    const T old = value_of(word_);
    word_ = word_of(static_cast<T>(old + more - less));
    return old;
  }

  std::uint64_t word_;
};

// AtomicPair.
class Pair {
 public:
  bool compare_exchange(WordPair& expected, WordPair desired) {
    Explorer::before_operation();
    Explorer::drain();
    if (pair_ == expected) {
      pair_ = desired;
      return true;
    }
    expected = pair_;
    return false;
  }

  std::uint64_t load_low(std::memory_order order) const {
    Explorer::before_operation();
    return Explorer::load(pair_.low, order);
  }
  std::uint64_t load_high(std::memory_order order) const {
    Explorer::before_operation();
    return Explorer::load(pair_.high, order);
  }

 private:
  WordPair pair_;
};

// AsymmetricBarrier.
struct Barrier {
  static void light() {}
  static void heavy() {
    Explorer::before_operation();
    Explorer::heavy_barrier();
  }
};

// locksley::Mutex.
class LOCKSLEY_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() LOCKSLEY_ACQUIRE() LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS {
    Explorer::before_operation();
    Explorer::wait([this] { return !locked_; });
    locked_ = true;
    Explorer::take(left_);
  }
  void unlock() LOCKSLEY_RELEASE() LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS {
    Explorer::before_operation();
    left_ = Explorer::leave();
    locked_ = false;
  }

 private:
  bool locked_ = false;
  Explorer::Mark left_;
};

// Parker: a token, each of whose operations is one step. That the real one is as good as that is a
// test of its own.
class TokenParker {
 public:
  TokenParker() = default;
  TokenParker(const TokenParker&) = delete;
  TokenParker& operator=(const TokenParker&) = delete;

  void park() {
    Explorer::before_operation();
    Explorer::drain();
    Explorer::wait([this] { return token_; });
    token_ = false;
  }
  void unpark() {
    Explorer::before_operation();
    Explorer::drain();
    token_ = true;
  }

 private:
  bool token_ = false;
};

// core/sync/parker.h's Futex. A wait compares and begins in one step. It may end for no reason, or,
// if it has a deadline, at any time: clocks have no place here.
class ModelFutex : public Atomic<std::uint32_t> {
 public:
  using Atomic::Atomic;

  void wait_while(std::uint32_t value) { (void)wait(value, Explorer::Early::kSpuriously); }
  [[nodiscard]] bool wait_while_until(std::uint32_t value, std::chrono::steady_clock::time_point) {
    return wait(value, Explorer::Early::kByTimeout);
  }

  // Any one of those that wait.
  void wake_one() {
    Explorer::before_operation();
    Explorer::drain();
    if (waiting_.empty()) return;
    const auto woken = waiting_.begin() + static_cast<std::ptrdiff_t>(Explorer::any_of(waiting_.size()));
    **woken = true;
    waiting_.erase(woken);
  }

 private:
  // False: by the deadline.
  bool wait(std::uint32_t value, Explorer::Early early) {
    if (load() != value) return true;  // this load and what follows are one step
    Explorer::drain();
    bool woken = false;
    waiting_.push_back(&woken);
    Explorer::wait([&woken] { return woken; }, early);
    std::erase(waiting_, &woken);
    return woken || early != Explorer::Early::kByTimeout;
  }

  std::vector<bool*> waiting_;  // each says whether it was woken
};

// StdAtomics.
struct ModelAtomics {
  template <class T>
  using atomic = Atomic<T>;
  using atomic_pair = Pair;
  using barrier = Barrier;
  using mutex = Mutex;
  using parker = TokenParker;
  using futex = ModelFutex;
};

}  // namespace locksley::model
