#include "daemon/store/read/reader.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace locksley::daemon {

void Reader::start() {
  const MutexLock lock(mutex_);
  add_thread();
}

void Reader::post(Task task, User user, Place place) {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    // As many as there are users that read: a few.
    auto line = std::ranges::find(lines_, user, &Line::user);
    if (line == lines_.end()) line = lines_.insert(line, {user, {}});
    line->tasks.insert(place == Place::kFirst ? line->tasks.begin() : line->tasks.end(), std::move(task));
    ++tasks_;
    if (idle_ < tasks_ && threads_.size() < most_threads_) {
      try {
        add_thread();
      } catch (const std::system_error&) {
        // The system has no more threads: the task waits for those that there are.
      }
    }
  }
  changed_.notify_one();
}

void Reader::add_thread() {
  threads_.push_back(start_thread_([this] { run(); }));
  ++idle_;
}

void Reader::stop() {
  std::list<Line> dropped;
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(lines_);
    threads.swap(threads_);
  }
  changed_.notify_all();
  dropped.clear();
  for (std::thread& thread : threads) thread.join();
}

void Reader::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && lines_.empty()) changed_.wait(mutex_);
    if (stopping_) return;
    Line& next = lines_.front();
    Task task = std::move(next.tasks.front());
    next.tasks.pop_front();
    if (next.tasks.empty()) {
      lines_.pop_front();
    } else {
      lines_.splice(lines_.end(), lines_, lines_.begin());
    }
    --tasks_;
    --idle_;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    ++idle_;
  }
}

}  // namespace locksley::daemon
