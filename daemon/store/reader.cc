#include "daemon/store/reader.h"

#include <algorithm>
#include <utility>

namespace locksley::daemon {

void Reader::post(Task task, User user) {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    // As many as there are users that read: a few.
    auto line = std::ranges::find(lines_, user, &Line::user);
    if (line == lines_.end()) line = lines_.insert(line, {user, {}});
    line->tasks.push_back(std::move(task));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void Reader::stop() {
  std::list<Line> dropped;
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(lines_);
    thread.swap(thread_);
  }
  changed_.notify_one();
  dropped.clear();
  if (thread.joinable()) thread.join();
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
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace locksley::daemon
