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
    // There are as many lines as users that read: a few.
    auto line = std::ranges::find(lines_, user, &Line::user);
    if (line == lines_.end()) line = lines_.insert(line, {user, {}});
    line->tasks.insert(place == Place::kFirst ? line->tasks.begin() : line->tasks.end(), std::move(task));
    ++tasks_;
    if (idle_ < tasks_ && threads_.size() < most_threads_) {
      try {
        add_thread();
      } catch (const std::system_error&) {
        // The system has no more threads: the task waits for one of the existing threads.
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

std::list<Reader::Line>::iterator Reader::next_line() {
  auto line = lines_.begin();
  while (line != lines_.end() && std::ranges::find(at_work_, line->user) != at_work_.end()) ++line;
  return line;
}

void Reader::run() {
  MutexLock lock(mutex_);
  for (;;) {
    auto next = next_line();
    while (!stopping_ && next == lines_.end()) {
      changed_.wait(mutex_);
      next = next_line();
    }
    if (stopping_) return;
    const User user = next->user;
    Task task = std::move(next->tasks.front());
    next->tasks.pop_front();
    if (next->tasks.empty()) {
      lines_.erase(next);
    } else {
      lines_.splice(lines_.end(), lines_, next);
    }
    if (of_user_ == OfUser::kOne) at_work_.push_back(user);
    --tasks_;
    --idle_;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    ++idle_;
    // This thread takes the user's next task, if it is that user's turn, or the next thread that
    // ends a task does.
    std::erase(at_work_, user);
  }
}

}  // namespace locksley::daemon
