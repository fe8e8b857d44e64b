#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/atomics.h"
#include "core/check.h"
#include "core/steal.h"

namespace locksley {

// The work-stealing deque: its owner pushes and pops at the bottom, last in first out, without locks; any
// number of thieves steal at the top, oldest first, without locks. Each value that is pushed is given out
// exactly once, to the owner or to one thief.
//
// Whoever creates it owns the object; it outlives all its handles. It does not own what its values point to:
// what is left inside at destruction is forgotten.
// Access is by handles. Owner: one at a time, used by one thread at a time; it may be dropped and another
// thread may take the ownership over (`owner()` after the old handle's end, ordered by a lock or the like).
// Thief: any number, any thread, even while there is no owner.
// Nothing blocks, but a push onto a full array allocates. Steal and pop are single tries: no loops.
// A push that cannot allocate throws std::bad_alloc and leaves the deque as it was. Two owners at a time are
// a bug, and abort.
//
// The algorithm is Chase and Lev's (2005) with the orders of Lê, Pop, Cohen and Zappa Nardelli (2013), but
// for three things: no standalone fences, which ThreadSanitizer cannot see (sequentially consistent accesses
// stand in their place); growth publishes the new array with release, which their code lacked; and the owner
// takes the last value straight from the top, as a thief would, instead of announcing it at the bottom first.
//
// Indexes only grow over the deque's life (64 bits: never reused). Values at [top, bottom) are inside.
// Why exactly one taker gets each value, in steps (S: the total order of sequentially consistent accesses):
//  1. A thief takes index t only by moving top from t to t + 1, in one step. So do two of the owner's three
//     ways to take. Top never falls, so at most one of all those succeeds for each index.
//  2. That leaves the owner's way without a swap: pop lowers bottom to b, then reads top < b, and takes b.
//     Suppose that a thief takes b as well: it read top = b, then bottom > b, then swapped.
//  3. If the thief read bottom before the owner lowered it (in S): its read of top came earlier still, so in
//  S
//     top was b before the owner read it. The owner would have read top >= b. Contradiction.
//  4. If the thief read bottom after that, the value > b that it saw was written by a later push, and the
//     value at b is a new one, pushed after the pop. It is not the value that the owner took.
//  5. A thief that succeeds for t read the right value: the slot of t is written anew only by the push of an
//     index t + capacity, whose owner has first read top > t with acquire, written by that thief's swap or
//     after it; so the thief's read of the slot happened before the new write. An old array is never written
//     again after growth, and stays until the deque's end.
//  6. A thief that sees bottom > t sees the array that holds t, and the value in it: both were stored before
//     bottom, which was stored with release.
template <class T, class Atomics = StdAtomics>
class Deque {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "values are read in one step, by anyone");

 public:
  // As in Duffy's article. Doubles whenever the deque is full, and never shrinks.
  static constexpr std::size_t kInitialCapacity = 32;

  class Owner;
  class Thief;

  // `initial_capacity` is a power of two.
  explicit Deque(std::size_t initial_capacity = kInitialCapacity);
  Deque(const Deque&) = delete;
  Deque& operator=(const Deque&) = delete;
  // All handles are gone or will not be used again.
  ~Deque() = default;

  // The one owner's handle. A bug, and aborts, if another one still lives.
  [[nodiscard]] Owner owner() { return Owner(*this); }
  [[nodiscard]] Thief thief() { return Thief(*this); }

  // Hints, from any thread: out of date by the time that they return. But a push that came before the call,
  // in the order of sequentially consistent operations, is not overlooked.
  std::size_t len() const;
  bool empty() const { return len() == 0; }

 private:
  using Slot = typename Atomics::template atomic<T>;

  // A power of two of slots; index i lives in slot i & mask.
  struct Array {
    explicit Array(std::size_t capacity) : mask(capacity - 1), slots(std::make_unique<Slot[]>(capacity)) {}

    Slot& slot(std::uint64_t index) { return slots[index & mask]; }

    const std::uint64_t mask;
    // A slot is written by the owner, read by owner and thieves; a value read means nothing until the reader
    // has won its index.
    const std::unique_ptr<Slot[]> slots;
  };

  void push(T value);
  std::optional<T> pop();
  Steal<T> steal();
  Array* make_room(std::uint64_t bottom, Array* array);

  // Written by the owner; read by thieves. Whoever reads a bottom sees the slots below it.
  alignas(kCacheLine) typename Atomics::template atomic<std::uint64_t> bottom_{0};
  // Written by the owner, when it grows; read by thieves, who see all that was copied into it.
  typename Atomics::template atomic<Array*> array_{nullptr};
  // Owner's thread only. A lower bound of top_, read with acquire: slots below it may be written anew.
  std::uint64_t known_top_ = 0;
  // Owner's thread only. Every array there has been, the current one last: thieves may still read the old
  // ones. They are together no larger than the current one.
  std::vector<std::unique_ptr<Array>> arrays_;
  // Written by whoever gets or drops the owner's handle; true while one lives.
  typename Atomics::template atomic<bool> owned_{false};

  // Written by thieves and, for the last value, by the owner; read by all. Whoever reads a top knows that the
  // values below it are given out, and that their takers have read their slots.
  alignas(kCacheLine) typename Atomics::template atomic<std::uint64_t> top_{0};
};

// The bottom end. Movable; ends its ownership when it is destroyed, and must not outlive the deque.
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

  // Adds a value. Its publication is a release store and no more: whoever must next look for parked workers
  // needs a sequentially consistent read-modify-write in between.
  void push(T value) { deque_->push(value); }

  // Takes the newest value. None: the deque is empty, and stays so until the owner pushes.
  [[nodiscard]] std::optional<T> pop() { return deque_->pop(); }

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

// The top end. Copies at will; must not be used after the deque's end.
template <class T, class Atomics>
class Deque<T, Atomics>::Thief {
 public:
  // One try to take the oldest value.
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
Deque<T, Atomics>::Deque(std::size_t initial_capacity) {
  check(std::has_single_bit(initial_capacity), "a deque's capacity is not a power of two");
  arrays_.push_back(std::make_unique<Array>(initial_capacity));
  array_.store(arrays_.back().get());
}

template <class T, class Atomics>
std::size_t Deque<T, Atomics>::len() const {
  const std::uint64_t top = top_.load();
  const std::uint64_t bottom = bottom_.load();
  return bottom > top ? static_cast<std::size_t>(bottom - top) : 0;
}

template <class T, class Atomics>
void Deque<T, Atomics>::push(T value) {
  // [deque-own] relaxed: only the owner writes bottom and array, and it reads what it wrote itself.
  const std::uint64_t bottom = bottom_.load(std::memory_order_relaxed);
  // [deque-own] relaxed: as above.
  Array* array = array_.load(std::memory_order_relaxed);
  if (bottom - known_top_ > array->mask) [[unlikely]] {
    array = make_room(bottom, array);
  }
  // [deque-slot] relaxed: the release of bottom just below publishes it.
  array->slot(bottom).store(value, std::memory_order_relaxed);
  // [deque-bottom] release: the slot, what it points to and the array are there; pairs with the read of
  // bottom in steal().
  bottom_.store(bottom + 1, std::memory_order_release);
}

// The array with room for one more: the same one if thieves have taken something since the owner last looked,
// otherwise one twice as large.
template <class T, class Atomics>
auto Deque<T, Atomics>::make_room(std::uint64_t bottom, Array* array) -> Array* {
  // [deque-top] acquire: who took the values below top has read their slots, which are now free; pairs with
  // the swap in steal().
  known_top_ = top_.load(std::memory_order_acquire);
  if (bottom - known_top_ <= array->mask) {
    return array;
  }
  arrays_.push_back(std::make_unique<Array>(2 * (array->mask + 1)));
  Array* larger = arrays_.back().get();
  for (std::uint64_t i = known_top_; i != bottom; ++i) {
    // [deque-slot] relaxed: the owner wrote the slots itself, and the release of the array publishes the
    // copy.
    larger->slot(i).store(array->slot(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  // [deque-array] release: the copies are there; pairs with the acquire in steal().
  array_.store(larger, std::memory_order_release);
  return larger;
}

template <class T, class Atomics>
std::optional<T> Deque<T, Atomics>::pop() {
  // [deque-own] relaxed: only the owner writes bottom and array, and it reads what it wrote itself.
  std::uint64_t bottom = bottom_.load(std::memory_order_relaxed);
  // [deque-top-bound] relaxed: top never falls and never passes bottom, so a stale one is a lower bound. If
  // it has reached bottom the deque is empty; if it is one short, the swap below tells whether it is true.
  std::uint64_t top = top_.load(std::memory_order_relaxed);
  if (top == bottom) {
    return std::nullopt;
  }
  --bottom;
  // [deque-own] relaxed: as above.
  Array* array = array_.load(std::memory_order_relaxed);
  if (top == bottom) {
    // The last value, taken as a thief would take it. Bottom stays: the deque is empty either way.
    // [deque-slot] relaxed: the owner wrote it itself.
    const T value = array->slot(bottom).load(std::memory_order_relaxed);
    const bool won = top_.compare_exchange_strong(top, top + 1);
    known_top_ = bottom + 1;
    return won ? std::optional<T>(value) : std::nullopt;
  }
  // The heart: the owner announces what it is about to take, then looks at top; a thief looks at top, then at
  // bottom. No later load may pass this store.
  bottom_.store(bottom);
  top = top_.load();
  if (top < bottom) {
    known_top_ = top;
    // [deque-slot] relaxed: the owner wrote it itself.
    return array->slot(bottom).load(std::memory_order_relaxed);
  }
  // Thieves have come as far as this value, or have it.
  std::optional<T> value;
  if (top == bottom && top_.compare_exchange_strong(top, top + 1)) {
    // [deque-slot] relaxed: the owner wrote it itself.
    value = array->slot(bottom).load(std::memory_order_relaxed);
  }
  // [deque-bottom] release: so that every bottom that a thief may read was stored with release or more; pairs
  // with the read of bottom in steal().
  bottom_.store(bottom + 1, std::memory_order_release);
  known_top_ = bottom + 1;
  return value;
}

template <class T, class Atomics>
Steal<T> Deque<T, Atomics>::steal() {
  // Sequentially consistent, in this order: [deque-bottom] pairs with push(), [deque-top] with make_room().
  std::uint64_t top = top_.load();
  const std::uint64_t bottom = bottom_.load();
  if (top >= bottom) {
    return {StealOutcome::kEmpty};
  }
  // [deque-array] acquire: the slots are filled; pairs with the release in make_room(). Loaded after bottom:
  // the array is at least as new as bottom.
  Array* array = array_.load(std::memory_order_acquire);
  // [deque-slot] relaxed: filled before bottom was stored. If it has been given out or written anew since,
  // top has moved on and the swap fails.
  const T value = array->slot(top).load(std::memory_order_relaxed);
  if (!top_.compare_exchange_strong(top, top + 1)) {
    return {StealOutcome::kLostRace};
  }
  return {StealOutcome::kStolen, value};
}

}  // namespace locksley
