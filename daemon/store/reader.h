#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <thread>

#include "core/sync/mutex.h"

namespace locksley::daemon {

// A thread that reads the store for callers that must not wait for the disk, such as the I/O
// thread. There is one, so a slow read delays only other reads. It serves users round robin, so that
// however much one asks for, another waits for one task of each user that reads. The first task
// starts it; it sleeps while there are no tasks.
//
// Owned by the Store. Any thread may post. Tasks run one at a time, those of one user in the order of their post().
// post() does not block; stop() waits for the running task. A task must not throw.
class Reader {
 public:
  using Task = std::move_only_function<void()>;

  // For whom a task reads: any number that is the same for all tasks of one user.
  using User = std::uint64_t;
  static constexpr User kNoUser = ~User{0};

  Reader() = default;
  ~Reader() { stop(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // After stop(), destroys the task without running it.
  void post(Task task, User user = kNoUser) LOCKSLEY_EXCLUDES(mutex_);
  // Waits for the running task, and destroys those that have not started.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

 private:
  void run() LOCKSLEY_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  // Of users that have tasks, the one that is served next first.
  struct Line {
    User user;
    std::deque<Task> tasks;
  };
  std::list<Line> lines_ LOCKSLEY_GUARDED_BY(mutex_);
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::thread thread_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
