#include "tests/model/explorer.h"

#include "core/check.h"

namespace locksley::model {
namespace {

// The containers' code has no place for a pointer to the explorer, so the atomics find it here.
thread_local Explorer* the_explorer = nullptr;

constexpr std::size_t kStackBytes = 64 * 1024;  // a guess; the containers use a few hundred bytes

}  // namespace

Explorer::Explorer(Limits limits) : limits_(limits) {
  check(the_explorer == nullptr, "one explorer at a time");
  the_explorer = this;
}

Explorer::~Explorer() { the_explorer = nullptr; }

void Explorer::explore(const std::function<bool()>& program) {
  do {
    depth_ = 0;
    preemptions_ = 0;
    partial_drains_ = 0;
    ++executions_;
    if (!program()) {
      failed_ = true;
      return;
    }
    if (!next_schedule()) {
      complete_ = true;
      return;
    }
  } while (executions_ < limits_.executions);
}

// The next one in the order of a depth-first search: the last choice that has an alternative left takes it.
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

std::string Explorer::schedule() const {
  std::string text;
  for (std::size_t i = 0; i < depth_; ++i) {
    text += std::to_string(choices_[i].taken) + "/" + std::to_string(choices_[i].among) + " ";
  }
  return text;
}

void Explorer::run(std::vector<std::function<void()>> bodies) {
  threads_ = std::vector<Thread>(bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    Thread& thread = threads_[i];
    thread.body = std::move(bodies[i]);
    thread.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
    ::getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = nullptr;
    ::makecontext(&thread.context, &Explorer::enter, 0);
  }
  running_ = true;
  current_ = choose(threads_.size());
  ::swapcontext(&outside_, &threads_[current_].context);
  running_ = false;
  for (Thread& thread : threads_) {
    while (!thread.buffer.empty()) {
      drain_one(thread);
    }
  }
}

void Explorer::enter() {
  Explorer& self = *the_explorer;
  Thread& thread = self.threads_[self.current_];
  thread.body();
  thread.ended = true;
  self.reschedule();
}

void Explorer::before_operation() {
  if (the_explorer != nullptr && the_explorer->running_) {
    the_explorer->reschedule();
  }
}

// Chooses who goes on: the current thread (choice 0, unless it has ended) or, at the price of a preemption,
// another one. Then, again and again, whether a buffered store of a thread that is not running reaches
// memory. (Those of the running thread may wait until it loses the processor: nobody else could see them
// earlier.)
void Explorer::reschedule() {
  const bool ended = threads_[current_].ended;
  std::vector<std::size_t> next;
  if (!ended) {
    next.push_back(current_);
  }
  if (ended || preemptions_ < limits_.preemptions) {
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      if (i != current_ && !threads_[i].ended) {
        next.push_back(i);
      }
    }
  }
  if (next.empty()) {
    ::setcontext(&outside_);
  }
  const std::size_t chosen = next[choose(next.size())];
  preemptions_ += !ended && chosen != current_ ? 1 : 0;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const std::size_t buffered = threads_[i].buffer.size();
    if (i == chosen || buffered == 0) {
      continue;
    }
    const bool all_or_none = partial_drains_ == limits_.partial_drains;
    const std::size_t count = all_or_none ? buffered * choose(2) : choose(1 + buffered);
    partial_drains_ += count > 0 && count < buffered ? 1 : 0;
    for (std::size_t n = 0; n < count; ++n) {
      drain_one(threads_[i]);
    }
  }
  if (chosen != current_) {
    switch_to(chosen);
  }
}

void Explorer::switch_to(std::size_t thread) {
  ucontext_t& from = threads_[current_].context;
  current_ = thread;
  ::swapcontext(&from, &threads_[thread].context);
}

void Explorer::drain_one(Thread& thread) {
  const auto [word, value] = thread.buffer.front();
  thread.buffer.pop_front();
  *word = value;
}

std::uint64_t Explorer::load(const std::uint64_t& word) {
  if (the_explorer != nullptr && the_explorer->running_) {
    const auto& buffer = the_explorer->threads_[the_explorer->current_].buffer;
    for (auto it = buffer.rbegin(); it != buffer.rend(); ++it) {
      if (it->first == &word) {
        return it->second;
      }
    }
  }
  return word;
}

void Explorer::store(std::uint64_t& word, std::uint64_t value, std::memory_order order) {
  Explorer* self = the_explorer;
  if (self == nullptr || !self->running_) {
    word = value;
    return;
  }
  if (order == std::memory_order_seq_cst && !self->limits_.weaken_stores) {
    drain();
    word = value;
    return;
  }
  self->threads_[self->current_].buffer.emplace_back(&word, value);
}

void Explorer::drain() {
  if (the_explorer == nullptr || !the_explorer->running_) {
    return;
  }
  Thread& thread = the_explorer->threads_[the_explorer->current_];
  while (!thread.buffer.empty()) {
    drain_one(thread);
  }
}

void Explorer::drain_all() {
  Explorer* self = the_explorer;
  if (self == nullptr || !self->running_ || self->limits_.weaken_barriers) {
    return;
  }
  for (Thread& thread : self->threads_) {
    while (!thread.buffer.empty()) {
      drain_one(thread);
    }
  }
}

}  // namespace locksley::model
