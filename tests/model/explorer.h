// Runs a small concurrent program in every interleaving of its atomic operations.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace locksley::model {

// How stores reach memory. Each virtual thread has a buffer of stores that others do not see yet.
//
// x86: a store weaker than seq_cst goes into the buffer, and the buffer reaches memory at any later
// moment, in the order in which it was filled. A seq_cst store, a read-modify-write, and taking or
// leaving a mutex drain the buffer.
//
// weak: stores to different words leave the buffer in any order, except that a release store waits
// for all that came before it. A seq_cst store goes there, too, as a release store: the same
// thread's next seq_cst load waits for it, its weaker loads do not. A read-modify-write drains the
// buffer. Mutexes do not: what came before an unlock reaches memory when another thread locks, or
// at any moment before.
//
// In both a thread sees its own stores at once, a heavy barrier drains the buffers of all threads,
// and the rest is simpler than the language and some processors are:
//   - A load takes place where it stands, and reads what memory holds then. Loads do not pass each
//     other, and a store does not pass a load that came before it, be they ever so weak.
//   - A read-modify-write is one step, of full strength whatever its order. Nothing passes it.
//   - A store reaches all others at one moment.
// So missing "announce before you look" barriers are found, under `weak` also a store that should
// have been a release, and a load that should have been seq_cst. A load that should have been an
// acquire, and a read-modify-write that is too weak, are not: for those there are the proofs in the
// headers.
enum class Memory { kX86, kWeak };

// The scheduler of virtual threads: coroutines of the calling thread that can lose the processor
// before each operation on the atomics, mutexes and parkers of tests/model/atomics.h, and nowhere
// else. A depth-first search goes through all schedules with at most `preemptions` switches away
// from a thread that could have gone on (few are enough to show most bugs: Musuvathi and Qadeer
// 2007). Switches away from a thread that waits or has ended are not counted.
//
// A thread that waits does not run before its condition holds. When no thread can go on, all
// buffered stores reach memory; if that lets no thread go on, it is a deadlock, and the execution
// has failed.
//
// Belongs to one test and one thread; one explorer at a time. What a deadlock leaves on the stacks
// of virtual threads is not destroyed. A loop that performs operations for ever is a failure, too;
// one that performs none hangs the explorer.
class Explorer {
 public:
  struct Limits {
    Memory memory = Memory::kX86;
    int preemptions = 3;
    // Times that some, but not all, of a thread's buffered stores reach memory.
    int partial_drains = 2;
    // Times that a wait ends for no reason.
    int spurious_wakes = 1;
    std::uint64_t executions = 4'000'000;  // a guess: some seconds
    // Operations and waits of one execution: with more it is endless. A guess; tests need hundreds.
    std::uint64_t operations = 10'000;
    // To show that they matter: treats seq_cst stores as release, and release stores as relaxed
    // (which `x86` does not tell apart), and lets heavy barriers do nothing.
    bool weaken_stores = false;
    bool weaken_releases = false;
    bool weaken_barriers = false;
  };
  enum class Failure { kNone, kWrongOutcome, kDeadlock, kEndless };
  // When a wait may end although its condition does not hold.
  enum class Early { kNever, kSpuriously, kByTimeout };
  // The stores of a thread up to a certain one.
  struct Mark {
    std::size_t thread = 0;
    std::uint64_t stores = 0;
  };

  explicit Explorer(Limits limits);
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;
  ~Explorer();

  // Runs `program` once for each schedule, until one fails or there are no more. The program builds
  // its objects anew, calls run() once, and returns whether the outcome is right.
  void explore(const std::function<bool()>& program);

  // Called by the program: runs its threads to their ends. If `may_rest` is given, and is true when
  // no thread can go on, then those that wait for ever do right; they are left where they are.
  void run(std::vector<std::function<void()>> bodies, const std::function<bool()>& may_rest = nullptr);

  std::uint64_t executions() const { return executions_; }
  bool complete() const { return complete_; }  // every schedule within the limits was run
  bool failed() const { return failure_ != Failure::kNone; }
  Failure failure() const { return failure_; }
  // The execution that was run last: "0*5 1*2 0!1" means that thread 0 began five operations, then
  // thread 1 two, and then one buffered store of thread 0 reached memory, apart from those that had
  // to.
  std::string schedule() const;

  // For the atomics and their like. All do nothing special outside run().
  static void before_operation();
  static std::uint64_t load(const std::uint64_t& word, std::memory_order order);
  static void store(std::uint64_t& word, std::uint64_t value, std::memory_order order);
  static void drain();
  static void heavy_barrier();
  // Leaving a mutex, and taking one that was left: what came before the one happens before the
  // other.
  static Mark leave();
  static void take(const Mark& left);
  // Returns when `ready` holds; returns that. It had better look at plain variables, which need no
  // draining.
  static bool wait(const std::function<bool()>& ready, Early early = Early::kNever);
  // One of several things that may happen, the number of it. All will be tried.
  static std::size_t any_of(std::size_t among);

 private:
  struct Store {
    std::uint64_t* word;
    std::uint64_t value;
    std::uint64_t number;
    bool release;
    bool sequential;
  };
  struct Thread {
    std::function<void()> body;
    std::unique_ptr<char[]> stack;
    ucontext_t start;
    jmp_buf left;  // where it lost the processor
    bool started;
    bool ended;
    bool just_begun;                     // and has performed no operation yet
    const std::function<bool()>* ready;  // what it waits for, or null
    Early early;
    std::vector<Store> buffer;
    std::uint64_t stores;  // that have gone into the buffer so far
  };
  struct Choice {
    std::size_t taken;
    std::size_t among;
  };
  // For schedule().
  struct Event {
    std::size_t thread;
    std::uint64_t operations;
    std::size_t stores;
  };

  static Explorer* running();
  static void enter();
  Thread& current() { return threads_[current_]; }
  std::size_t choose(std::size_t among);
  bool next_schedule();
  void begin_execution();
  void reschedule();
  std::size_t choose_thread();
  bool can_go_on(const Thread& thread) const;
  bool can_return_early(const Thread& thread) const;
  void choose_drains(std::size_t thread);
  void choose_drains_in_any_order(Thread& thread);
  void drain_first(Thread& thread, std::size_t count);
  bool drain_everybody();
  [[noreturn]] void go_to(Thread& thread);
  void switch_to(std::size_t thread);
  [[noreturn]] void stop();

  const Limits limits_;
  std::vector<Thread> threads_;
  std::function<bool()> may_rest_;
  jmp_buf outside_;
  std::size_t current_ = 0;
  bool running_ = false;
  // Of the execution that runs.
  std::uint64_t operations_ = 0;
  int preemptions_ = 0;
  int partial_drains_ = 0;
  int spurious_wakes_ = 0;
  std::vector<Event> events_;
  // Of the search.
  std::vector<Choice> choices_;
  std::size_t depth_ = 0;
  std::vector<std::size_t> candidates_;
  std::uint64_t executions_ = 0;
  bool complete_ = false;
  Failure failure_ = Failure::kNone;
};

}  // namespace locksley::model
