#include "daemon/store/reader.h"

#include <utility>

namespace locksley::daemon {

void Reader::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void Reader::stop() {
  std::deque<Task> dropped;
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    thread.swap(thread_);
  }
  changed_.notify_one();
  dropped.clear();
  if (thread.joinable()) thread.join();
}

void Reader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace locksley::daemon
