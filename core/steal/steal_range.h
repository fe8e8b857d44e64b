// The rest of a claim or of a loop: the owner takes bursts from its low end, thieves take the upper
// half.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/base/cache_line.h"
#include "core/base/check.h"
#include "core/base/index_range.h"
#include "core/steal/steal.h"
#include "core/sync/atomics.h"

namespace locksley {

// The payload of ranges that need none.
struct NoPayload {};

// The stealing range: a range of indexes. Its owner takes bursts from the low end, and thieves take
// halves from the high end, each in one step. The owner publishes range after range in it, each
// with a few words that describe the range for thieves (its batch, for example). Each index is
// given out exactly once. The idea is that of Dzmitry Huba, "Load-balancing partitioner with work
// stealing, part one" (blogs.msdn.com/dhuba), whose owner takes one index at a time.
//
// The code that creates the object owns it, and destroys it after all its handles.
// Access is by handles. Owner: one at a time, used by one thread at a time. Thief: any number, from
// any thread, whether a range is published at the moment or not.
// Nothing blocks. steal() tries once. take() tries again only when a thief has stolen half of what
// was left, so at most 33 times in a row.
// Nothing fails. Two owners at a time, a range that is too long, and a publication before the last
// range is used up are bugs, and abort.
//
// One AtomicPair (low, high) holds the rest of the range, in positions: numbers that stand for
// indexes and only grow over the object's life. `position + shift` is the index, where shift is a
// word beside the payload. The owner remembers the pair as it last knew it, so that taking a burst
// is a single swap, without a load.
//
// Why each index goes to exactly one taker, who knows the right payload, in steps. A pair is empty
// when low == high; a range is what is published in one go, n positions from base on; E is base +
// n.
//  1. The pair changes by compare_exchange only, so its values form one order. From a non-empty
//     pair, owner and thieves take by raising low or lowering high, and never leave low > high.
//     From an empty one, only the owner moves it, by publishing.
//  2. Within a range the distance high - low falls with each change, so no pair comes twice.
//     Between ranges, non-empty pairs differ: all those of a range have low < E, and later ranges
//     have low >= E, since their positions begin at E. So a non-empty pair never comes twice in the
//     object's life.
//  3. So a swap that expects the non-empty (l, h) and succeeds finds the range in the very state
//     that was read, whatever happened between: no ABA. It takes positions that no other thread can
//     take. This gives "one taker"; the rest is about the payload.
//  4. The owner writes payload and shift only when it knows that the pair is empty: its own swap
//     emptied the pair, or failed and returned an empty pair. Then it publishes. It does not write
//     them again until the pair is empty again.
//  5. A thief loads low, then high, then payload and shift, then swaps. Suppose that the swap
//     succeeds. Then low belongs to a certain range (2). The load of low is an acquire of the
//     publication or of a swap after it, so the words it loads are those of this range or later
//     ones.
//  6. They are not later ones: the thief's swap comes before the pair is empty again. The owner
//     learns that the pair is empty by a swap which acquires all swaps before it, and writes the
//     next words only then. So the thief's loads happened before those writes, and cannot have seen
//     them.
//  7. Loads of a thief whose swap fails may be of any mixture. They are atomic words, so the
//     mixture is no race, and it is thrown away.
//  8. "Empty" is true: low only grows. If low was l and then high was h <= l, then at the load
//     of high low was at least l, hence at least h.
template <class Payload = NoPayload, class Atomics = StdAtomics>
class StealRange {
  static constexpr std::size_t kPayloadWords = std::is_empty_v<Payload> ? 0 : sizeof(Payload) / 8;
  static_assert(std::is_trivially_copyable_v<Payload>);
  static_assert(std::is_empty_v<Payload> || sizeof(Payload) % 8 == 0, "payloads are copied in whole words");
  static_assert(kPayloadWords <= 4, "the pair, the shift and the payload share a cache line");

 public:
  // The longest range in one publication. Positions are never reused: 2^64 positions allow 2^32
  // publications of this length, enough for decades. A longer loop publishes one part after
  // another.
  static constexpr std::uint64_t kMaxLen = std::uint64_t{1} << 32;

  // take_burst() takes at most 1/kBurstDivisor of the rest, but at least one index.
  static constexpr std::uint64_t kBurstDivisor = 4;

  // The part of a range that a thief gets.
  struct Stolen {
    IndexRange range;
    Payload payload;
  };

  class Owner;
  class Thief;

  StealRange() = default;
  StealRange(const StealRange&) = delete;
  StealRange& operator=(const StealRange&) = delete;
  // All handles are gone or will not be used again.
  ~StealRange() = default;

  // The one owner's handle. A bug, and aborts, if another one still lives.
  [[nodiscard]] Owner owner() { return Owner(*this); }
  [[nodiscard]] Thief thief() { return Thief(*this); }

  // Hints, from any thread: they may be out of date when they return. But they always see a
  // publication that came before the call in the order of sequentially consistent operations.
  std::uint64_t len() const;
  bool empty() const { return len() == 0; }

 private:
  template <class Word>
  using Atomic = typename Atomics::template atomic<Word>;
  using Words = std::array<std::uint64_t, kPayloadWords>;

  void publish(IndexRange range, const Payload& payload);
  template <class Want>
  IndexRange take_as(Want want);
  Steal<Stolen> steal();
  std::uint64_t known_len() const { return known_.high - known_.low; }

  // The positions that are left. Written by owner and thieves. A thread that loads low sees the
  // words below.
  alignas(kCacheLine) typename Atomics::atomic_pair left_;
  // Written by the owner while left_ is empty; read by thieves, who may believe it only once their
  // swap has succeeded. index = position + shift, modulo 2^64.
  Atomic<std::uint64_t> shift_{0};
  // Written and read as shift_ is.
  std::array<Atomic<std::uint64_t>, kPayloadWords> payload_{};

  // Owner's thread only: left_ as it was last seen. If it is empty here, it is empty.
  alignas(kCacheLine) WordPair known_;
  // Owner's thread only: shift_, and the first position never used yet.
  std::uint64_t known_shift_ = 0;
  std::uint64_t fresh_ = 0;
  // Written when an owner's handle is made or destroyed; true while one lives.
  Atomic<bool> owned_{false};
};

// The low end. Movable. Its destruction ends the ownership. Must not outlive the range's object.
template <class Payload, class Atomics>
class StealRange<Payload, Atomics>::Owner {
 public:
  Owner(Owner&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(range_, other.range_);
    return *this;
  }
  ~Owner() {
    if (range_ != nullptr) {
      range_->owned_.store(false);
    }
  }

  // Offers `range`, at most kMaxLen long, to itself and thieves. The last one must be used up:
  // take(), take_burst() or take_all() has returned an empty range, or len() is 0. Sequentially
  // consistent, so that the owner may then look for parked workers.
  void publish(IndexRange range, const Payload& payload = Payload{}) { range_->publish(range, payload); }

  // Takes the lowest indexes, at most `n` (from 1). An empty range: nothing is left, and never will
  // be until the next publication.
  [[nodiscard]] IndexRange take(std::uint64_t n) {
    return range_->take_as([n](std::uint64_t left) { return std::min(n, left); });
  }

  // The same, but at most a quarter of the rest (and at least one index), so that bursts shrink
  // towards the end, and thieves find work until the last few indexes:
  // min(max, max(1, left / kBurstDivisor)).
  // Why 4: a swap costs about 8 ns, so that a claim of 512 costs its owner 0.13 ns an index with 2,
  // 0.30 with 4, 0.57 with 8 and 1.0 with 16 (BM_StealRange_BurstDivisor). Whole loops did not
  // differ measurably between 2, 4 and 16. With 2 a slow body can hold back half of the rest.
  [[nodiscard]] IndexRange take_burst(std::uint64_t max) {
    return range_->take_as([max](std::uint64_t left) {
      return std::min(max, std::max<std::uint64_t>(1, left / kBurstDivisor));
    });
  }

  // Takes all that is left, in one step. A worker whose quantum has ended does so, to give back the
  // rest of its claim.
  [[nodiscard]] IndexRange take_all() {
    return range_->take_as([](std::uint64_t left) { return left; });
  }

  // How many indexes were left at the owner's last publication or take; thieves may have taken some
  // since. But if it is 0, nothing is left.
  std::uint64_t len() const { return range_->known_len(); }

  [[nodiscard]] Thief thief() const { return range_->thief(); }

 private:
  friend class StealRange;
  explicit Owner(StealRange& range) : range_(&range) {
    check(!range.owned_.exchange(true), "a stealing range has two owners");
  }

  StealRange* range_;
};

// The high end. Copyable. Must not be used after the end of the range's object.
template <class Payload, class Atomics>
class StealRange<Payload, Atomics>::Thief {
 public:
  // One attempt to take the upper half of the rest, rounded up; so a thief can take the last index.
  Steal<Stolen> steal() const { return range_->steal(); }

  // Hints, as the range's.
  std::uint64_t len() const { return range_->len(); }
  bool empty() const { return range_->empty(); }

 private:
  friend class StealRange;
  explicit Thief(StealRange& range) : range_(&range) {}

  StealRange* range_;
};

template <class Payload, class Atomics>
std::uint64_t StealRange<Payload, Atomics>::len() const {
  const std::uint64_t low = left_.load_low(std::memory_order_seq_cst);
  const std::uint64_t high = left_.load_high(std::memory_order_seq_cst);
  return high > low ? high - low : 0;
}

template <class Payload, class Atomics>
void StealRange<Payload, Atomics>::publish(IndexRange range, const Payload& payload) {
  check(known_.low == known_.high, "a stealing range is published before the last one is used up");
  check(range.low <= range.high && range.size() <= kMaxLen, "a stealing range is too long");
  check(fresh_ <= ~std::uint64_t{0} - kMaxLen, "a stealing range has used up its positions");
  if (range.empty()) {
    return;
  }
  const WordPair pair{fresh_, fresh_ + range.size()};
  fresh_ = pair.high;
  known_shift_ = range.low - pair.low;
  // [range-words] relaxed: thieves believe it only after a swap, see steps 4 to 7; the swap below
  // publishes it.
  shift_.store(known_shift_, std::memory_order_relaxed);
  if constexpr (kPayloadWords > 0) {
    const auto words = std::bit_cast<Words>(payload);
    for (std::size_t i = 0; i < kPayloadWords; ++i) {
      // [range-words] relaxed: as shift_.
      payload_[i].store(words[i], std::memory_order_relaxed);
    }
  }
  check(left_.compare_exchange(known_, pair), "an empty stealing range was changed by a thief");
  known_ = pair;
}

// Takes want(left) of the `left` indexes that there are, from the low end. 1 <= want(left) <= left.
template <class Payload, class Atomics>
template <class Want>
IndexRange StealRange<Payload, Atomics>::take_as(Want want) {
  while (known_.low != known_.high) {
    const WordPair rest{known_.low + want(known_.high - known_.low), known_.high};
    const std::uint64_t first = known_.low;
    // If it fails, known_ is a state of the pair even where its halves are loaded apart (arm64):
    // the owner alone changes low.
    if (left_.compare_exchange(known_, rest)) [[likely]] {
      known_ = rest;
      return {first + known_shift_, rest.low + known_shift_};
    }
  }
  return {};
}

template <class Payload, class Atomics>
auto StealRange<Payload, Atomics>::steal() -> Steal<Stolen> {
  // In this order, see steps 5 and 8.
  WordPair left;
  left.low = left_.load_low(std::memory_order_seq_cst);
  left.high = left_.load_high(std::memory_order_seq_cst);
  if (left.low >= left.high) {
    return {StealOutcome::kEmpty};
  }
  // [range-words] relaxed: ordered after the load of low, which acquires, and before the swap; see
  // steps 5, 6.
  const std::uint64_t shift = shift_.load(std::memory_order_relaxed);
  Words words{};
  for (std::size_t i = 0; i < kPayloadWords; ++i) {
    // [range-words] relaxed: as shift.
    words[i] = payload_[i].load(std::memory_order_relaxed);
  }
  const std::uint64_t middle = left.low + (left.high - left.low) / 2;
  if (!left_.compare_exchange(left, {left.low, middle})) {
    return {StealOutcome::kLostRace};
  }
  Steal<Stolen> result{StealOutcome::kStolen};
  result.value.range = {middle + shift, left.high + shift};
  if constexpr (kPayloadWords > 0) {
    result.value.payload = std::bit_cast<Payload>(words);
  }
  return result;
}

}  // namespace locksley
