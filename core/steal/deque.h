// A worker's deque of sub-jobs: the owner works at the bottom, thieves take from the top.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/cache_line.h"
#include "core/base/check.h"
#include "core/steal/steal.h"
#include "core/sync/atomics.h"

namespace locksley {

// The work-stealing deque. Its owner pushes and pops at the bottom, last in first out; any number
// of thieves steal at the top, oldest first. Each value that is pushed is given out exactly once,
// to the owner or to one thief.
//
// The code that creates the deque owns it, and destroys it after all its handles. The deque does
// not own the objects to which its values point, and forgets the values that are left at its
// destruction.
// Access is by handles. Owner: one at a time, used by one thread at a time; when it is destroyed,
// another thread may get the next one from `owner()`, ordered by a lock or the like. Thief: any
// number, from any thread, even while there is no owner.
// There are no locks. A push onto a full array allocates. A steal waits for a heavy barrier (2.5
// us), unless one of the owner's latest pops has seen a theft. Steal and pop try once, without a
// loop.
// A push that cannot allocate throws std::bad_alloc and leaves the deque as it was. Two owners at a
// time are a bug, and abort.
//
// The algorithm is that of David Chase and Yossi Lev, "Dynamic Circular Work-Stealing Deque"
// (2005), with the memory orders of Nhat Minh Lê, Antoniu Pop, Albert Cohen and Francesco Zappa
// Nardelli, "Correct and Efficient Work-Stealing for Weak Memory Models" (2013). Three things
// differ:
//   - There are no standalone fences, which ThreadSanitizer cannot see; sequentially consistent
//     accesses take their place.
//   - Growth publishes the new array with release, which the code of 2013 lacked.
//   - The deque is biased.
//
// Biased: pop announces what it takes and then reads top, and the two must not be reordered. Where
// nothing is stolen, a full barrier there (8 ns) is most of the cost of a task. So the owner goes
// without one while it sees no thefts, and each thief makes the barrier for both
// (core/sync/asymmetric_barrier.h). Once a pop sees that top has moved, the owner becomes strict:
// it makes its own barriers, steals are cheap, and thieves do not interrupt it. (A push that needs
// room notes the present top; the pops after it do not count the thefts before.) After kCalmPops
// pops without a theft the owner stops being strict. `strict_` is the mode; only the owner writes
// it, and only in a pop, so each theft during one long task costs a barrier.
//
// Indexes only grow over the deque's life (64 bits: never reused). Values at [top, bottom) are
// inside. Why exactly one taker gets each value, in steps. S is the total order of sequentially
// consistent accesses.
//  1. A thief takes index t only by moving top from t to t + 1, in one step. So does the owner
//     with the last value. Top never falls, so at most one of all those succeeds for each index.
//  2. What remains is the owner's usual path, without a swap: pop lowers bottom to b, then reads
//     top < b, and takes b. Suppose that a thief takes b as well: it read top = b, then bottom > b,
//     then swapped.
//  3. If the thief's read of bottom sees the owner's lowering or something later, the value > b
//     that it saw was written by a later push, and the value at b is a new one, pushed after the
//     pop. It is not the value that the owner took. So suppose that it sees something earlier, in
//     each of three cases.
//     a. The pop was strict. Its store and all the reads are in S: the thief's read of bottom
//        comes before the store, its read of top earlier still, so in S top was b before the owner
//        read it. The owner would have read top >= b. Contradiction.
//     b. The pop was not strict, and the thief made a heavy barrier between its reads of top and
//        of bottom. The owner's thread passed a full barrier meanwhile. If that was before the
//        owner's read of top, the owner saw the top that the thief had read before, >= b. If it was
//        after, the owner's store to bottom was visible to the thief's read. Contradiction, both.
//     c. The pop was not strict, and the thief made none, having read strict_ == true after top
//        and before bottom. If the owner became strict after the pop, by the store that the thief
//        saw, its store to bottom came before that one and was visible. If it had stopped being
//        strict before the pop: the thief's read of top precedes its read of strict_, which
//        precedes in S the store of false, which precedes the owner's read of top. The owner would
//        have read top >= b. Contradiction, both.
//  4. So the owner and a thief do not both take b.
//  5. A thief that succeeds for t read the right value: the cell of t is written anew only by
//     the push of an index t + capacity, whose owner has first read top > t with acquire, written
//     by that thief's swap or after it; so the thief's read of the cell happened before the new
//     write. An old array is never written again after growth, and stays until the deque's end.
//  6. A thief that sees bottom > t sees the array that holds t, and the value in it: both were
//     stored before bottom, which was stored with release.
template <class T, class Atomics = StdAtomics>
class Deque {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "values are read in one step, by anyone");

 public:
  // As in Joe Duffy, "Building a custom thread pool (series, part 2): a work stealing queue"
  // (2008). Doubles whenever the deque is full, and never shrinks.
  static constexpr std::size_t kInitialCapacity = 32;
  // Strict pops without a theft before the owner stops being strict: together they cost about what
  // the heavy barrier of one more steal costs.
  static constexpr std::uint32_t kCalmPops = 256;

  class Owner;
  class Thief;

  // `initial_capacity` is a power of two, `calm_pops` at least 1.
  explicit Deque(std::size_t initial_capacity = kInitialCapacity, std::uint32_t calm_pops = kCalmPops);
  Deque(const Deque&) = delete;
  Deque& operator=(const Deque&) = delete;
  // All handles are gone or will not be used again.
  ~Deque() = default;

  // The one owner's handle. A bug, and aborts, if another one still lives.
  [[nodiscard]] Owner owner() { return Owner(*this); }
  [[nodiscard]] Thief thief() { return Thief(*this); }

  // Hints, from any thread: they may be out of date when they return. They may overlook a push,
  // unless a heavy barrier lies between it and the call (core/README.md, step 6).
  std::size_t len() const;
  bool empty() const { return len() == 0; }

 private:
  using Cell = typename Atomics::template atomic<T>;

  // A power of two of cells; index i lives in cell i & mask.
  struct Array {
    explicit Array(std::size_t capacity) : mask(capacity - 1), cells(std::make_unique<Cell[]>(capacity)) {}

    Cell& cell(std::uint64_t index) { return cells[index & mask]; }

    const std::uint64_t mask;
    // A cell is written by the owner and read by owner and thieves. A value that was read means
    // nothing until its reader has won the index.
    const std::unique_ptr<Cell[]> cells;
  };

  void push(T value);
  bool pop(T& value);
  Steal<T> steal();
  void grow_if_full(std::uint64_t bottom);
  bool pop_announced(std::uint64_t bottom, std::uint64_t top, T& value);
  void adapt(std::uint64_t top);

  // Written by the owner; read by thieves. A thief that reads a bottom sees the cells below it.
  alignas(kCacheLine) typename Atomics::template atomic<std::uint64_t> bottom_{0};
  // Written by the owner when the deque grows; read by thieves, who see all that was copied into
  // it.
  typename Atomics::template atomic<Array*> array_{nullptr};
  // Whether pops make their barrier themselves. Written by the owner; read by thieves, between top
  // and bottom.
  typename Atomics::template atomic<bool> strict_{false};
  // Owner's thread only. array_, without the atomic.
  Array* own_array_;
  // Constant.
  const std::uint32_t most_calm_pops_;
  // Owner's thread only. Strict pops to come if nothing is stolen; 0: it is not strict.
  std::uint32_t calm_pops_left_ = 0;
  // Owner's thread only. A lower bound of top_, read with acquire: cells below it may be written
  // anew.
  std::uint64_t known_top_ = 0;
  // Owner's thread only. Every array there has been, the current one last: thieves may still read
  // the old ones. They are together no larger than the current one.
  std::vector<std::unique_ptr<Array>> arrays_;
  // Written when an owner's handle is made or destroyed; true while one lives.
  typename Atomics::template atomic<bool> owned_{false};

  // Written by thieves and, for the last value, by the owner; read by all. A thread that reads a
  // top knows that the values below it are given out, and that their takers have read their cells.
  alignas(kCacheLine) typename Atomics::template atomic<std::uint64_t> top_{0};
};

// The bottom end. Movable. Its destruction ends the ownership. Must not outlive the deque.
template <class T, class Atomics>
class Deque<T, Atomics>::Owner {
 public:
  Owner(Owner&& other) noexcept : deque_(std::exchange(other.deque_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(deque_, other.deque_);
    return *this;
  }
  ~Owner() {
    if (deque_ != nullptr) {
      deque_->owned_.store(false);
    }
  }

  // Adds a value. Its publication is a release store and no more. A caller that next looks for
  // parked workers needs a store-load barrier in between: Idle::needs_wake_for_task() has the light
  // half of one.
  void push(T value) { deque_->push(value); }

  // Takes the newest value. False, and `value` is unchanged: the deque is empty, and stays so until
  // the owner pushes.
  [[nodiscard]] bool pop(T& value) { return deque_->pop(value); }
  // The same, easier to use. It costs some nanoseconds more, in which g++ builds the optional.
  [[nodiscard]] std::optional<T> pop() {
    T value{};
    return pop(value) ? std::optional<T>(value) : std::nullopt;
  }

  // Hints: thieves may take some meanwhile.
  std::size_t len() const { return deque_->len(); }
  bool empty() const { return deque_->empty(); }

  [[nodiscard]] Thief thief() const { return deque_->thief(); }

 private:
  friend class Deque;
  explicit Owner(Deque& deque) : deque_(&deque) {
    check(!deque.owned_.exchange(true), "a deque has two owners");
  }

  Deque* deque_;
};

// The top end. Copyable. Must not be used after the deque's end.
template <class T, class Atomics>
class Deque<T, Atomics>::Thief {
 public:
  // One attempt to take the oldest value.
  Steal<T> steal() const { return deque_->steal(); }

  // Hints, as the deque's.
  std::size_t len() const { return deque_->len(); }
  bool empty() const { return deque_->empty(); }

 private:
  friend class Deque;
  explicit Thief(Deque& deque) : deque_(&deque) {}

  Deque* deque_;
};

template <class T, class Atomics>
Deque<T, Atomics>::Deque(std::size_t initial_capacity, std::uint32_t calm_pops) : most_calm_pops_(calm_pops) {
  check(std::has_single_bit(initial_capacity), "a deque's capacity is not a power of two");
  arrays_.push_back(std::make_unique<Array>(initial_capacity));
  own_array_ = arrays_.back().get();
  array_.store(own_array_);
}

template <class T, class Atomics>
std::size_t Deque<T, Atomics>::len() const {
  const std::uint64_t top = top_.load();
  const std::uint64_t bottom = bottom_.load();
  return bottom > top ? static_cast<std::size_t>(bottom - top) : 0;
}

template <class T, class Atomics>
inline void Deque<T, Atomics>::push(T value) {
  // [deque-own] relaxed: only the owner writes bottom, and it reads what it wrote itself.
  const std::uint64_t bottom = bottom_.load(std::memory_order_relaxed);
  if (bottom - known_top_ > own_array_->mask) [[unlikely]] {
    grow_if_full(bottom);
  }
  // [deque-cell] relaxed: the release of bottom just below publishes it.
  own_array_->cell(bottom).store(value, std::memory_order_relaxed);
  // [deque-bottom] release: the cell, what it points to and the array are there; pairs with the
  // read of bottom in steal().
  bottom_.store(bottom + 1, std::memory_order_release);
}

// Makes room for one more: there is some if thieves have taken something since the owner last
// looked; otherwise the next array is twice as large.
template <class T, class Atomics>
void Deque<T, Atomics>::grow_if_full(std::uint64_t bottom) {
  // [deque-top] acquire: the threads that took the values below top have read their cells, which
  // are now free; pairs with the swap in steal().
  known_top_ = top_.load(std::memory_order_acquire);
  if (bottom - known_top_ <= own_array_->mask) {
    return;
  }
  arrays_.push_back(std::make_unique<Array>(2 * (own_array_->mask + 1)));
  Array* larger = arrays_.back().get();
  for (std::uint64_t i = known_top_; i != bottom; ++i) {
    // [deque-cell] relaxed: the owner wrote the cells itself, and the release of the array
    // publishes the copy.
    larger->cell(i).store(own_array_->cell(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  own_array_ = larger;
  // [deque-array] release: the copies are there; pairs with the acquire in steal().
  array_.store(larger, std::memory_order_release);
}

template <class T, class Atomics>
inline bool Deque<T, Atomics>::pop(T& value) {
  // [deque-own] relaxed: only the owner writes bottom, and it reads what it wrote itself.
  const std::uint64_t end = bottom_.load(std::memory_order_relaxed);
  if (end == known_top_) {
    return false;
  }
  // The heart: the owner announces what it is about to take, then looks at top; a thief looks at
  // top, then at bottom. The load may not pass the store: step 3.
  const std::uint64_t bottom = end - 1;
  if (calm_pops_left_ != 0) [[unlikely]] {
    bottom_.store(bottom);
    return pop_announced(bottom, top_.load(), value);
  }
  // [deque-bottom] release: so that every bottom that a thief may read was stored with release or
  // more.
  bottom_.store(bottom, std::memory_order_release);
  Atomics::barrier::light();
  const std::uint64_t top = top_.load();
  if (top == known_top_ && top != bottom) [[likely]] {
    // [deque-cell] relaxed: the owner wrote it itself.
    value = own_array_->cell(bottom).load(std::memory_order_relaxed);
    return true;
  }
  return pop_announced(bottom, top, value);
}

// The rest of a pop that has announced `bottom` and then read `top`.
template <class T, class Atomics>
bool Deque<T, Atomics>::pop_announced(std::uint64_t bottom, std::uint64_t top, T& value) {
  adapt(top);
  // [deque-cell] relaxed: the owner wrote it itself.
  const T newest = own_array_->cell(bottom).load(std::memory_order_relaxed);
  if (top < bottom) {
    value = newest;
    return true;
  }
  // Thieves have come as far as this value, or have it. The last one is taken as they take it.
  const bool won = top == bottom && top_.compare_exchange_strong(top, top + 1);
  if (won) {
    value = newest;
  }
  // [deque-bottom] release: so that every bottom that a thief may read was stored with release or
  // more; pairs with the read of bottom in steal().
  bottom_.store(bottom + 1, std::memory_order_release);
  known_top_ = bottom + 1;
  return won;
}

// After a pop has read `top`: decides whether the next pops make their barriers themselves.
template <class T, class Atomics>
void Deque<T, Atomics>::adapt(std::uint64_t top) {
  if (top != known_top_) {
    known_top_ = top;
    if (calm_pops_left_ == 0) strict_.store(true);
    calm_pops_left_ = most_calm_pops_;
  } else if (calm_pops_left_ != 0) {
    --calm_pops_left_;
    if (calm_pops_left_ == 0) strict_.store(false);
  }
}

template <class T, class Atomics>
Steal<T> Deque<T, Atomics>::steal() {
  // Sequentially consistent, in this order: [deque-bottom] pairs with push(), [deque-top] with
  // grow_if_full().
  std::uint64_t top = top_.load();
  const bool strict = strict_.load();
  std::uint64_t bottom = bottom_.load();
  if (top >= bottom) {
    return {StealOutcome::kEmpty};
  }
  if (!strict) {
    Atomics::barrier::heavy();
    bottom = bottom_.load();
    if (top >= bottom) {
      return {StealOutcome::kEmpty};
    }
  }
  // [deque-array] acquire: the cells are filled; pairs with the release in grow_if_full(). Loaded
  // after bottom: the array is at least as new as bottom.
  Array* array = array_.load(std::memory_order_acquire);
  // [deque-cell] relaxed: filled before bottom was stored. If it has been given out or written anew
  // since, top has moved on and the swap fails.
  const T value = array->cell(top).load(std::memory_order_relaxed);
  if (!top_.compare_exchange_strong(top, top + 1)) {
    return {StealOutcome::kLostRace};
  }
  return {StealOutcome::kStolen, value};
}

}  // namespace locksley
