// The mutexes of the whole program: the standard library's, with annotations, so that clang checks
// at compile time which mutex guards what (core/sync/thread_annotations.h). A lint keeps the
// standard ones out of all other files.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "core/sync/thread_annotations.h"

namespace locksley {

class CondVar;

// std::mutex. Prefer a MutexLock to lock() and unlock().
class LOCKSLEY_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() LOCKSLEY_ACQUIRE() { mutex_.lock(); }
  void unlock() LOCKSLEY_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() LOCKSLEY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  // Tells the compiler that the caller holds this mutex, if the caller has locked it under another
  // name (the same member, reached by another path). Checks nothing.
  void assume_held() const LOCKSLEY_ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex (any with lock() and unlock(), such as those of tests/model) from its construction
// to its destruction, except between unlock() and lock(). Used by one thread; on the stack.
template <class Lockable = Mutex>
class LOCKSLEY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Lockable& mutex) LOCKSLEY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() LOCKSLEY_RELEASE() {
    if (locked_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Needs: it is locked.
  void unlock() LOCKSLEY_RELEASE() {
    locked_ = false;
    mutex_.unlock();
  }
  // Needs: it is not locked.
  void lock() LOCKSLEY_ACQUIRE() {
    mutex_.lock();
    locked_ = true;
  }

 private:
  Lockable& mutex_;
  bool locked_ = true;
};

// std::condition_variable. Every wait may end without a notification, so it belongs in a loop that
// checks the condition. There is no overload with a predicate, since the analysis does not see into
// a lambda.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  // Blocks; the mutex is released meanwhile.
  void wait(Mutex& mutex) LOCKSLEY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // The same, until `deadline` at the latest.
  template <class Clock, class Duration>
  std::cv_status wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& deadline)
      LOCKSLEY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    lock.release();
    return status;
  }

 private:
  std::condition_variable condition_;
};

// std::shared_mutex: one writer, or any number of readers.
class LOCKSLEY_CAPABILITY("mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() LOCKSLEY_ACQUIRE() { mutex_.lock(); }
  void unlock() LOCKSLEY_RELEASE() { mutex_.unlock(); }
  void lock_shared() LOCKSLEY_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() LOCKSLEY_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a SharedMutex as its one writer, for its own life. On the stack.
class LOCKSLEY_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) LOCKSLEY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriterLock() LOCKSLEY_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Holds a SharedMutex as one of its readers, for its own life. On the stack.
class LOCKSLEY_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) LOCKSLEY_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() LOCKSLEY_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace locksley
