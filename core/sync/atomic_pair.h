// Two words that are swapped as one.
#pragma once

#include <atomic>
#include <cstdint>

namespace locksley {

// Two 64-bit words that change together. A plain value.
struct WordPair {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const WordPair&, const WordPair&) = default;
};

// A WordPair that any number of threads compare and swap in one step.
//
// Any thread may call anything. Nothing blocks where the processor swaps 16 bytes at once
// (x86-64 with -mcx16, arm64); elsewhere std::atomic<WordPair> stands in, which may lock inside
// libatomic. Nothing fails.
//
// The two halves are loaded one at a time, since a 16-byte load costs as much as the swap itself.
// That mixes accesses of 8 and of 16 bytes on the same memory, which the C++ memory model does not
// describe and which x86-64 and arm64 keep coherent, byte by byte. It is safe under two rules,
// which this class imposes by having no other operations:
//   1. the pair changes by compare_exchange only, so every change is a full barrier and belongs
//      to one order;
//   2. halves that are loaded apart may belong to two states of the pair. Such a torn pair
//      either never was a state, and then a compare_exchange that expects it fails; or it is the
//      present state, and then it does no harm.
class alignas(16) AtomicPair {
 public:
  AtomicPair() = default;
  AtomicPair(const AtomicPair&) = delete;
  AtomicPair& operator=(const AtomicPair&) = delete;

  // If the pair equals `expected`, makes it `desired` and returns true; else stores the pair in
  // `expected` and returns false. Never fails spuriously. Sequentially consistent in both cases.
  // On arm64 a swap that fails may be two loads: then rule 2 holds for what is in `expected`.
  bool compare_exchange(WordPair& expected, WordPair desired);

  // One half. `order` is relaxed, acquire or seq_cst. An acquire must be on the low half:
  // ThreadSanitizer ties a 16-byte operation's happens-before to the address of its first word.
  std::uint64_t load_low(std::memory_order order) const;
  std::uint64_t load_high(std::memory_order order) const;

#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)

 private:
  // may_alias: the compiler must expect these bits to be the two words below.
  __extension__ typedef unsigned __int128 Bits __attribute__((may_alias));

  static Bits bits_of(WordPair pair) { return (static_cast<Bits>(pair.high) << 64) | pair.low; }

  // Written by any thread, by compare_exchange alone; read by any thread, each half for itself.
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

static_assert(sizeof(AtomicPair) == 16 && alignof(AtomicPair) == 16, "cmpxchg16b faults when misaligned");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline bool AtomicPair::compare_exchange(WordPair& expected, WordPair desired) {
  // The __sync form, not the __atomic one: g++ compiles the latter to a call into libatomic.
  const Bits wanted = bits_of(expected);
  auto* pair = reinterpret_cast<Bits*>(&low_);
#if defined(__clang__)
  // In a register of its own: clang 19 would address a pair on the stack by rbx, where that is the
  // base of the frame, and the instruction wants rbx for itself.
  __asm__("" : "+r"(pair));
#endif
  const Bits found = __sync_val_compare_and_swap(pair, wanted, bits_of(desired));
  if (found == wanted) {
    return true;
  }
  expected = {static_cast<std::uint64_t>(found), static_cast<std::uint64_t>(found >> 64)};
  return false;
}

inline std::uint64_t AtomicPair::load_low(std::memory_order order) const {
  return __atomic_load_n(&low_, static_cast<int>(order));
}

inline std::uint64_t AtomicPair::load_high(std::memory_order order) const {
  return __atomic_load_n(&high_, static_cast<int>(order));
}

#else

 private:
  std::atomic<WordPair> pair_;  // written and read by any thread; links against libatomic
};

inline bool AtomicPair::compare_exchange(WordPair& expected, WordPair desired) {
  return pair_.compare_exchange_strong(expected, desired);
}

inline std::uint64_t AtomicPair::load_low(std::memory_order order) const { return pair_.load(order).low; }

inline std::uint64_t AtomicPair::load_high(std::memory_order order) const { return pair_.load(order).high; }

#endif

}  // namespace locksley
