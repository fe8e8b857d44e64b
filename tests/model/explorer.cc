#include "tests/model/explorer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/base/check.h"

namespace locksley::model {
namespace {

// The code under test has no place for a pointer to the explorer, so the atomics find it here.
thread_local Explorer* the_explorer = nullptr;

constexpr std::size_t kStackBytes = 64 * 1024;  // a guess; the code under test uses a few hundred bytes

}  // namespace

Explorer::Explorer(Limits limits) : limits_(limits) {
  check(the_explorer == nullptr, "one explorer at a time");
  the_explorer = this;
}

Explorer::~Explorer() { the_explorer = nullptr; }

Explorer* Explorer::running() {
  return the_explorer != nullptr && the_explorer->running_ ? the_explorer : nullptr;
}

// ---- The search ----

void Explorer::explore(const std::function<bool()>& program) {
  do {
    begin_execution();
    const bool right = program();
    if (failed()) return;  // found by run()
    if (!right) {
      failure_ = Failure::kWrongOutcome;
      return;
    }
    if (!next_schedule()) {
      complete_ = true;
      return;
    }
  } while (executions_ < limits_.executions);
}

void Explorer::begin_execution() {
  depth_ = 0;
  operations_ = 0;
  preemptions_ = 0;
  partial_drains_ = 0;
  spurious_wakes_ = 0;
  events_.clear();
  ++executions_;
}

// The next one in the order of a depth-first search: the last choice that has an alternative left
// takes it.
bool Explorer::next_schedule() {
  choices_.resize(depth_);
  while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().among) {
    choices_.pop_back();
  }
  if (choices_.empty()) {
    return false;
  }
  ++choices_.back().taken;
  return true;
}

std::size_t Explorer::choose(std::size_t among) {
  if (among == 1) {
    return 0;
  }
  if (depth_ == choices_.size()) {
    choices_.push_back({0, among});
  }
  check(choices_[depth_].among == among, "the program under the explorer is not deterministic");
  return choices_[depth_++].taken;
}

std::size_t Explorer::any_of(std::size_t among) {
  Explorer* self = running();
  check(self != nullptr, "only threads under the explorer can choose");
  return self->choose(among);
}

std::string Explorer::schedule() const {
  std::string text;
  for (std::size_t i = 0; i < events_.size();) {
    const Event& event = events_[i];
    if (event.stores != 0) {
      text += std::to_string(event.thread) + "!" + std::to_string(event.stores) + " ";
      ++i;
      continue;
    }
    std::uint64_t operations = 0;
    for (; i < events_.size() && events_[i].thread == event.thread && events_[i].stores == 0; ++i) {
      operations += events_[i].operations;
    }
    text += std::to_string(event.thread) + "*" + std::to_string(operations) + " ";
  }
  return text;
}

// ---- Threads ----

void Explorer::run(std::vector<std::function<void()>> bodies, const std::function<bool()>& may_rest) {
  check(!running_ && !bodies.empty(), "run() is called once, with something to run");
  threads_.resize(bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    Thread& thread = threads_[i];
    thread.body = std::move(bodies[i]);
    if (thread.stack == nullptr) {
      thread.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
      ::getcontext(&thread.start);
      thread.start.uc_stack.ss_sp = thread.stack.get();
      thread.start.uc_stack.ss_size = kStackBytes;
      thread.start.uc_link = nullptr;
    }
    ::makecontext(&thread.start, &Explorer::enter, 0);
    thread.started = false;
    thread.ended = false;
    thread.just_begun = true;
    thread.ready = nullptr;
    thread.early = Early::kNever;
    thread.buffer.clear();
    thread.stores = 0;
  }
  may_rest_ = may_rest;
  running_ = true;
  current_ = choose(threads_.size());
  // Contexts begin threads, and jumps go from one to the other, because jumps make no system calls.
  if (::_setjmp(outside_) == 0) go_to(current());
  running_ = false;
}

void Explorer::enter() {
  Explorer& self = *the_explorer;
  Thread& thread = self.current();
  thread.body();
  thread.ended = true;
  self.reschedule();
}

// Back to run(), from any thread.
void Explorer::stop() { ::_longjmp(outside_, 1); }

void Explorer::before_operation() {
  Explorer* self = running();
  if (self == nullptr) return;
  // The thread that was chosen to begin does so: nothing has happened since.
  if (!std::exchange(self->current().just_begun, false)) self->reschedule();
  self->events_.push_back({self->current_, 1, 0});
}

bool Explorer::wait(const std::function<bool()>& ready, Early early) {
  if (ready()) return true;
  Explorer* self = running();
  if (self == nullptr) {
    check(early == Early::kByTimeout, "a wait that no thread can end");
    return false;
  }
  Thread& thread = self->current();
  thread.ready = &ready;
  thread.early = early;
  self->reschedule();
  thread.ready = nullptr;
  return ready();
}

bool Explorer::can_go_on(const Thread& thread) const {
  return !thread.ended && (thread.ready == nullptr || (*thread.ready)());
}

bool Explorer::can_return_early(const Thread& thread) const {
  if (thread.ended || thread.ready == nullptr) return false;
  return thread.early == Early::kByTimeout ||
         (thread.early == Early::kSpuriously && spurious_wakes_ < limits_.spurious_wakes);
}

// Chooses who goes on, then, for each of the others, which of its buffered stores reach memory.
// (Those of the thread that runs may wait until it loses the processor: no other thread could see
// them earlier.)
void Explorer::reschedule() {
  if (++operations_ > limits_.operations) {
    failure_ = Failure::kEndless;
    stop();
  }
  const std::size_t chosen = choose_thread();
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (i != chosen) choose_drains(i);
  }
  if (chosen != current_) {
    switch_to(chosen);
  }
}

// The current thread (choice 0, unless it waits or has ended) or, at the price of a preemption,
// another one. Does not return when no thread can go on.
std::size_t Explorer::choose_thread() {
  const bool goes_on = can_go_on(current());
  bool stuck = true;
  candidates_.clear();
  for (std::size_t n = 0; n < threads_.size(); ++n) {
    // The current one, then the others in their order.
    const std::size_t i = n == 0 ? current_ : n - (n <= current_ ? 1 : 0);
    const Thread& thread = threads_[i];
    if (i != current_ && goes_on && preemptions_ == limits_.preemptions) break;
    const bool ready = can_go_on(thread);
    if (!ready && !can_return_early(thread)) continue;
    candidates_.push_back(i);
    stuck = stuck && !ready && thread.early != Early::kByTimeout;
  }
  if (stuck) {
    if (drain_everybody()) return choose_thread();
    const bool all_ended = std::ranges::all_of(threads_, &Thread::ended);
    if (!all_ended && !(may_rest_ != nullptr && may_rest_())) failure_ = Failure::kDeadlock;
    stop();
  }
  const std::size_t chosen = candidates_[choose(candidates_.size())];
  preemptions_ += goes_on && chosen != current_ ? 1 : 0;
  const Thread& thread = threads_[chosen];
  spurious_wakes_ += thread.early == Early::kSpuriously && !can_go_on(thread) ? 1 : 0;
  return chosen;
}

void Explorer::switch_to(std::size_t thread) {
  jmp_buf& left = current().left;
  current_ = thread;
  if (::_setjmp(left) == 0) go_to(threads_[thread]);
}

void Explorer::go_to(Thread& thread) {
  if (thread.started) ::_longjmp(thread.left, 1);
  thread.started = true;
  ::setcontext(&thread.start);
  std::abort();  // it does not return
}

// ---- Memory ----

void Explorer::choose_drains(std::size_t number) {
  Thread& thread = threads_[number];
  const std::size_t buffered = thread.buffer.size();
  if (buffered == 0) return;
  if (buffered == 1 || partial_drains_ == limits_.partial_drains) {
    drain_first(thread, buffered * choose(2));
  } else if (limits_.memory == Memory::kX86) {
    drain_first(thread, choose(1 + buffered));
  } else {
    choose_drains_in_any_order(thread);
  }
  const std::size_t drained = buffered - thread.buffer.size();
  partial_drains_ += drained > 0 && drained < buffered ? 1 : 0;
  if (drained > 0) events_.push_back({number, 0, drained});
}

// Each set of stores that may leave before the others comes about in one way.
void Explorer::choose_drains_in_any_order(Thread& thread) {
  std::vector<Store> kept;
  for (const Store& store : thread.buffer) {
    const bool must_wait = std::ranges::any_of(
        kept, [&](const Store& earlier) { return store.release || earlier.word == store.word; });
    if (!must_wait && choose(2) == 1) {
      *store.word = store.value;
    } else {
      kept.push_back(store);
    }
  }
  thread.buffer = std::move(kept);
}

void Explorer::drain_first(Thread& thread, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    *thread.buffer[i].word = thread.buffer[i].value;
  }
  thread.buffer.erase(thread.buffer.begin(), thread.buffer.begin() + static_cast<std::ptrdiff_t>(count));
}

// False: there was nothing to drain.
bool Explorer::drain_everybody() {
  bool any = false;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const std::size_t buffered = threads_[i].buffer.size();
    if (buffered == 0) continue;
    drain_first(threads_[i], buffered);
    any = true;
  }
  return any;
}

std::uint64_t Explorer::load(const std::uint64_t& word, std::memory_order order) {
  Explorer* self = running();
  if (self == nullptr) return word;
  Thread& thread = self->current();
  if (order == std::memory_order_seq_cst) {
    for (std::size_t i = thread.buffer.size(); i-- > 0;) {
      if (thread.buffer[i].sequential) {
        self->drain_first(thread, i + 1);
        break;
      }
    }
  }
  for (auto store = thread.buffer.rbegin(); store != thread.buffer.rend(); ++store) {
    if (store->word == &word) return store->value;
  }
  return word;
}

void Explorer::store(std::uint64_t& word, std::uint64_t value, std::memory_order order) {
  Explorer* self = running();
  if (self == nullptr) {
    word = value;
    return;
  }
  const bool sequential = order == std::memory_order_seq_cst && !self->limits_.weaken_stores;
  if (sequential && self->limits_.memory == Memory::kX86) {
    drain();
    word = value;
    return;
  }
  // relaxed: what is asked for; every other order of a store releases.
  const bool release = order != std::memory_order_relaxed && !self->limits_.weaken_releases;
  Thread& thread = self->current();
  thread.buffer.push_back({&word, value, ++thread.stores, release, sequential});
}

void Explorer::drain() {
  Explorer* self = running();
  if (self == nullptr) return;
  Thread& thread = self->current();
  self->drain_first(thread, thread.buffer.size());
}

void Explorer::heavy_barrier() {
  Explorer* self = running();
  if (self != nullptr && !self->limits_.weaken_barriers) self->drain_everybody();
}

Explorer::Mark Explorer::leave() {
  Explorer* self = running();
  if (self == nullptr) return {};
  if (self->limits_.memory == Memory::kX86) drain();
  return {self->current_, self->current().stores};
}

void Explorer::take(const Mark& left) {
  Explorer* self = running();
  if (self == nullptr) return;
  if (self->limits_.memory == Memory::kX86) drain();
  if (left.thread == self->current_) return;
  Thread& before = self->threads_[left.thread];
  const auto after =
      std::ranges::find_if(before.buffer, [&](const Store& store) { return store.number > left.stores; });
  self->drain_first(before, static_cast<std::size_t>(after - before.buffer.begin()));
}

}  // namespace locksley::model
