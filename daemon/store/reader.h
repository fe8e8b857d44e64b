#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace locksley::daemon {

// Reads for those who must not wait for the disk themselves: one thread, so that what is cold holds up only
// others of its kind. It is started by the first task, and sleeps while there are none.
//
// Owned by the Store. Any thread may post; tasks are run one after the other, in the order in which they
// came. A task does not throw.
class Reader {
 public:
  using Task = std::move_only_function<void()>;

  Reader() = default;
  ~Reader() { stop(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // After stop() it is dropped.
  void post(Task task);
  // Waits for the task that is being run; those behind it are dropped.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace locksley::daemon
