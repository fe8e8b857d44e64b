// Templates of core/context.h, which includes this file.
#pragma once

#include <utility>

#include "core/parallel_for.h"
#include "core/worker.h"

namespace locksley {

template <class F>
void TaskGroup::spawn(F&& function) {
  Worker& worker = context_.worker();
  Task* task = worker.allocate_task();
  task->count = &count_;
  task->frame = &context_.frame();
  try {
    task->emplace(std::forward<F>(function));
    worker.push(task);
  } catch (...) {
    worker.free_task(task);
    throw;
  }
  // Counted when it is there to be waited for; a thief that ends it before is counted apart.
  count_.spawned();
}

inline TaskGroup::~TaskGroup() {
  if (!count_.is_done()) context_.worker().wait(count_, context_.frame());
}

inline void TaskGroup::wait() {
  if (!count_.is_done()) context_.worker().wait(count_, context_.frame());
  if (auto exception = count_.take_exception()) std::rethrow_exception(std::move(exception));
}

template <class Body>
void Context::parallel_for(std::uint64_t low, std::uint64_t high, Body&& body, std::uint64_t grain) {
  ParallelLoop<std::remove_reference_t<Body>>(*this, body, grain).run({low, high});
}

}  // namespace locksley
