// Functions that other threads give to the thread of an io_context.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <atomic>
#include <functional>
#include <vector>

#include "core/sync/mutex.h"
#include "daemon/base/loop/io.h"

namespace locksley::daemon {

// A list of functions that other threads give to the thread that runs an io_context, and an eventfd
// that wakes this thread.
//
// asio::post() does the same at a higher price. It wakes the thread while it holds the mutex of the
// io_context; the thread wakes on another processor, needs that mutex at once, and sleeps again
// until it is released. Here the thread is woken after the mutex is released, by one system call,
// which is made only if the thread sleeps. The eventfd is never read: epoll, to which Asio adds it
// edge-triggered, reports each write.
//
// An Asio service: an io_context has one, which is created at its first use and destroyed with the
// io_context. The constructor throws std::system_error; nothing else fails. post(): any thread; it
// holds a mutex while it moves the function, and does not block.
//
// The functions run while run_io_loop() runs the io_context, in the order of the calls. At other
// times they go by asio::post(), so that an io_context can be run in any way. Functions that wait
// here do not keep an io_context from running out of work; those that have not run are destroyed
// with it.
class IoMailbox final : public asio::execution_context::service {
 public:
  using Function = std::move_only_function<void()>;
  static asio::execution_context::id id;  // by which Asio finds it

  explicit IoMailbox(asio::io_context& io);
  ~IoMailbox() override = default;
  static IoMailbox& of(asio::io_context& io) { return asio::use_service<IoMailbox>(io); }

  // The thread of the io_context calls `function` soon.
  void post(Function function) LOCKSLEY_EXCLUDES(mutex_);

  // ---- For run_io_loop(), on its thread ----

  // While a Serving exists, that thread looks into the mailbox.
  class Serving {
   public:
    explicit Serving(IoMailbox& mailbox) : mailbox_(mailbox) { mailbox_.set_served(true); }
    ~Serving() { mailbox_.set_served(false); }
    Serving(const Serving&) = delete;
    Serving& operator=(const Serving&) = delete;

   private:
    IoMailbox& mailbox_;
  };
  // Whether run() has anything to call.
  bool has_functions() const { return has_functions_.load(); }
  // Calls the functions that are there. False: there were none.
  bool run() LOCKSLEY_EXCLUDES(mutex_);
  // From now on post() wakes the thread. False, and no change: there is a function to call.
  bool begin_sleep();
  void end_sleep() { sleeps_.store(false); }

 private:
  void shutdown() override LOCKSLEY_EXCLUDES(mutex_);
  void set_served(bool served) LOCKSLEY_EXCLUDES(mutex_);

  asio::io_context& io_;
  asio::posix::basic_stream_descriptor<IoExecutor> bell_;  // an eventfd

  Mutex mutex_;
  std::vector<Function> functions_ LOCKSLEY_GUARDED_BY(mutex_);
  bool is_served_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  // Whether functions_ is not empty. Written under the mutex; the thread reads it without the
  // mutex.
  std::atomic<bool> has_functions_{false};
  // Set by the thread before it reads has_functions_ for the last time, and reset when it wakes. A
  // post() that finds it set resets it, too, so that only one of many calls wakes the thread. All
  // seq_cst: either that read finds the function, or the function's post() finds this flag set.
  std::atomic<bool> sleeps_{false};

  std::vector<Function> running_;  // the thread's only: the functions that run() calls; kept for its memory
};

}  // namespace locksley::daemon
