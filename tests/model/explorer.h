// Runs a small concurrent program in every interleaving of its atomic operations.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/atomic_pair.h"

namespace locksley::model {

// The scheduler of virtual threads: coroutines of the calling thread that can lose the processor before each
// operation on a ModelAtomics atomic, and nowhere else. A depth-first search goes through all schedules with
// at most `preemptions` switches away from a thread that could have gone on (few are enough to show most
// bugs: Musuvathi and Qadeer 2007).
//
// The memory is that of x86: each virtual thread has a buffer of stores that others do not see yet. A store
// weaker than seq_cst goes there and reaches memory at any later moment, in order; a seq_cst store and a
// read-modify-write drain the buffer; a heavy barrier drains everybody's. So missing "announce before you
// look" barriers are found. Reorderings that only weaker processors do are not: for those there are the
// proofs in the headers.
//
// Belongs to one test and one thread; one explorer at a time. Nothing blocks. A program that never ends under
// some schedule (one that spins) hangs it: write tries, not loops.
class Explorer {
 public:
  struct Limits {
    int preemptions = 3;
    int partial_drains = 2;  // times that some but not all of a thread's buffered stores reach memory
    std::uint64_t executions = 4'000'000;  // a guess: some seconds
    bool weaken_stores = false;            // treats seq_cst stores as release, to show that they matter
    bool weaken_barriers = false;          // lets heavy barriers do nothing, for the same purpose
  };

  explicit Explorer(Limits limits);
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;
  ~Explorer();

  // Runs `program` once for each schedule, until it returns false or there are no more. The program builds
  // its objects anew, calls run() once, and returns whether the outcome is right.
  void explore(const std::function<bool()>& program);

  // Called by the program: runs its threads to their ends.
  void run(std::vector<std::function<void()>> bodies);

  std::uint64_t executions() const { return executions_; }
  bool complete() const { return complete_; }  // every schedule within the limits was run
  bool failed() const { return failed_; }
  // The choices of the schedule that was run last.
  std::string schedule() const;

  // For the atomics. All do nothing special outside run().
  static void before_operation();
  static std::uint64_t load(const std::uint64_t& word);
  static void store(std::uint64_t& word, std::uint64_t value, std::memory_order order);
  static void drain();
  static void drain_all();

 private:
  struct Thread {
    std::function<void()> body;
    std::unique_ptr<char[]> stack;
    ucontext_t context;
    bool ended = false;
    std::deque<std::pair<std::uint64_t*, std::uint64_t>> buffer;
  };
  struct Choice {
    std::size_t taken;
    std::size_t among;
  };

  static void enter();
  std::size_t choose(std::size_t among);
  bool next_schedule();
  void reschedule();
  void switch_to(std::size_t thread);
  static void drain_one(Thread& thread);

  const Limits limits_;
  std::vector<Thread> threads_;
  ucontext_t outside_;
  std::size_t current_ = 0;
  bool running_ = false;
  int preemptions_ = 0;
  int partial_drains_ = 0;
  std::vector<Choice> choices_;
  std::size_t depth_ = 0;
  std::uint64_t executions_ = 0;
  bool complete_ = false;
  bool failed_ = false;
};

// std::atomic, as far as the containers use it, under the explorer.
template <class T>
class Atomic {
 public:
  Atomic() : Atomic(T{}) {}
  Atomic(T value) : word_(word_of(value)) {}  // as std::atomic: implicit
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    Explorer::before_operation();
    return value_of(Explorer::load(word_));
  }

  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    Explorer::before_operation();
    Explorer::store(word_, word_of(value), order);
  }

  T exchange(T value) {
    Explorer::before_operation();
    Explorer::drain();
    return value_of(std::exchange(word_, word_of(value)));
  }

  bool compare_exchange_strong(T& expected, T value) {
    Explorer::before_operation();
    Explorer::drain();
    if (word_ == word_of(expected)) {
      word_ = word_of(value);
      return true;
    }
    expected = value_of(word_);
    return false;
  }

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

  std::uint64_t word_;
};

// AtomicPair under the explorer.
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

  std::uint64_t load_low(std::memory_order) const {
    Explorer::before_operation();
    return pair_.low;
  }
  std::uint64_t load_high(std::memory_order) const {
    Explorer::before_operation();
    return pair_.high;
  }

 private:
  WordPair pair_;
};

// AsymmetricBarrier under the explorer.
struct Barrier {
  static void light() {}
  static void heavy() {
    Explorer::before_operation();
    Explorer::drain_all();
  }
};

struct ModelAtomics {
  template <class T>
  using atomic = Atomic<T>;
  using atomic_pair = Pair;
  using barrier = Barrier;
};

}  // namespace locksley::model
