// Threads for tasks that wait for the disk or take long, fairly among users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "core/sync/mutex.h"

namespace locksley::daemon {

// A thread that reads the store for callers that must not wait for the disk, such as the I/O
// thread. There is one thread, so a slow read delays only other reads; or there are several, if the
// constructor says so. They serve users round robin, so a user waits for one task of each other
// user, however many tasks the others have. A user does not wait for others at all if there are as
// many threads as users that read, with OfUser::kOne. start() starts the first thread. post()
// starts another one if no thread is free. A thread sleeps while there are no tasks.
//
// Owned by the Store, by its PayloadFetcher, and by Batches. Any thread may post. As many tasks run
// at a time as there are threads, or users that have tasks with OfUser::kOne; those of one user
// begin in the order of their post(), except for Place::kFirst. post() does not block. If it cannot
// start a thread, the task waits for the threads that there are; without start() there may be none,
// and then the task waits until a later post() can start one. stop() waits for the running tasks. A
// task must not throw.
class Reader {
 public:
  using Task = std::move_only_function<void()>;

  // For whom a task reads: any number that is the same for all tasks of one user.
  using User = std::uint64_t;
  static constexpr User kNoUser = ~User{0};

  // Where a task waits among those of its user. Other users have their turns in either case.
  enum class Place : std::uint8_t {
    kLast,
    // For a task that continues the work of the task that posts it, and holds much memory
    // meanwhile. If many such series of tasks of a user wait, they run one after the other, and do
    // not hold memory all at once. That needs a reader of one thread, or OfUser::kOne.
    kFirst,
  };

  // How many tasks of one user run at a time, if there are so many threads. With kOne, a task
  // begins once the one before it of its user has ended.
  enum class OfUser : std::uint8_t { kMany, kOne };

  // Starts a thread that calls the function. Throws std::system_error. Only tests pass one.
  using StartThread = std::move_only_function<std::thread(std::move_only_function<void()>)>;

  // With up to `threads` threads.
  explicit Reader(std::size_t threads = 1, StartThread start_thread = start_std_thread)
      : Reader(threads, OfUser::kMany, std::move(start_thread)) {}
  Reader(std::size_t threads, OfUser of_user, StartThread start_thread = start_std_thread)
      : most_threads_(threads), of_user_(of_user), start_thread_(std::move(start_thread)) {}
  ~Reader() { stop(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Starts the first thread. Throws std::system_error. Called once, before the first post(), while
  // the daemon starts.
  void start() LOCKSLEY_EXCLUDES(mutex_);
  // After stop(), destroys the task without running it.
  void post(Task task, User user = kNoUser, Place place = Place::kLast) LOCKSLEY_EXCLUDES(mutex_);
  // Waits for the running tasks, and destroys those that have not started.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

 private:
  struct Line {
    User user;
    std::deque<Task> tasks;
  };

  static std::thread start_std_thread(std::move_only_function<void()> function) {
    return std::thread(std::move(function));
  }
  void run() LOCKSLEY_EXCLUDES(mutex_);
  // The line of the user whose task may begin next; the end: there is none.
  std::list<Line>::iterator next_line() LOCKSLEY_REQUIRES(mutex_);
  void add_thread() LOCKSLEY_REQUIRES(mutex_);

  const std::size_t most_threads_;
  const OfUser of_user_;
  Mutex mutex_;
  StartThread start_thread_ LOCKSLEY_GUARDED_BY(mutex_);
  CondVar changed_;
  // The lines of the users that have tasks; the user that is served next comes first.
  std::list<Line> lines_ LOCKSLEY_GUARDED_BY(mutex_);
  // With OfUser::kOne: the users of which a task runs; at most as many as threads.
  std::vector<User> at_work_ LOCKSLEY_GUARDED_BY(mutex_);
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ LOCKSLEY_GUARDED_BY(mutex_);
  std::size_t idle_ LOCKSLEY_GUARDED_BY(mutex_) = 0;   // threads that run no task
  std::size_t tasks_ LOCKSLEY_GUARDED_BY(mutex_) = 0;  // that have not begun
};

}  // namespace locksley::daemon
