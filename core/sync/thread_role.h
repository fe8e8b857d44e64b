// Data and functions that belong to one thread, checked at compile time.
#pragma once

#include "core/base/check.h"
#include "core/sync/thread_annotations.h"

namespace locksley {

// The right to do what belongs to one thread ("the I/O thread only", "the worker's own thread"), as
// a capability that clang checks like a mutex:
//
//   int turns_ LOCKSLEY_GUARDED_BY(own_thread_);
//   void run_turn() LOCKSLEY_REQUIRES(own_thread_);
//
// The thread takes the role by a ThreadRoleScope, around everything that it does. Where control
// comes back to it through code that has no annotations (a callback, a lambda), assert_held() says
// so to the compiler, and checks that it is so: a comparison of a thread-local variable, about a
// nanosecond.
//
// A thread has one role at a time, the innermost scope's; several threads may have the same role at
// once where each has its own copy of everything (tests with several daemons in one process).
// Outlives its scopes.
class LOCKSLEY_CAPABILITY("thread role") ThreadRole {
 public:
  constexpr ThreadRole() = default;
  ThreadRole(const ThreadRole&) = delete;
  ThreadRole& operator=(const ThreadRole&) = delete;

  bool is_held() const { return of_this_thread == this; }
  // Ends the process if the calling thread has not taken the role.
  void assert_held() const LOCKSLEY_ASSERT_CAPABILITY(this) {
    check(is_held(), "this function belongs to another thread");
  }
  // Tells the compiler the same and checks nothing, for paths on which the check would cost too
  // much.
  void assume_held() const LOCKSLEY_ASSERT_CAPABILITY(this) {}

 private:
  friend class ThreadRoleScope;
  static inline constinit thread_local const ThreadRole* of_this_thread = nullptr;
};

// The calling thread has the role for the life of this object. On the stack.
class LOCKSLEY_SCOPED_CAPABILITY ThreadRoleScope {
 public:
  explicit ThreadRoleScope(const ThreadRole& role) LOCKSLEY_ACQUIRE(role)
      : before_(ThreadRole::of_this_thread) {
    ThreadRole::of_this_thread = &role;
  }
  ~ThreadRoleScope() LOCKSLEY_RELEASE() { ThreadRole::of_this_thread = before_; }
  ThreadRoleScope(const ThreadRoleScope&) = delete;
  ThreadRoleScope& operator=(const ThreadRoleScope&) = delete;

 private:
  const ThreadRole* before_;
};

}  // namespace locksley
