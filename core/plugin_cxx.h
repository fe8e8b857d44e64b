// Plugins in C++: core/plugin.h with exceptions, lambdas and destructors. Header-only, C++20; it
// links against nothing and knows nothing else of Locksley. A whole plugin:
//
//   #include "core/plugin_cxx.h"
//
//   LOCKSLEY_PLUGIN("reverse", "returns its payload backwards",
//                   [](locksley::plugin::Job& job, std::string_view payload) {
//                     job.write(std::string(payload.rbegin(), payload.rend()));
//                   })
//
// An exception of a job becomes its error. Threads and lifetimes are those of core/plugin.h.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/plugin.h"

namespace locksley::plugin {

// The ABI's texts and C++ views of the same bytes.
inline std::string_view view(locksley_text text) {
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}
inline locksley_text text(std::string_view view) { return {view.data(), view.size()}; }

// A function of the host failed; what() is the host's text.
class HostError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class StopReason : std::uint8_t { kNone, kCancelled, kTimeout };

// [low, high).
struct IndexRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// The first exception of several threads. keep() on any of them; rethrow() when they have ended.
class FirstException {
 public:
  void keep() noexcept {
    if (!is_kept_.exchange(true)) exception_ = std::current_exception();
  }
  // Throws the exception that was kept, once. Without one it does nothing.
  void rethrow() {
    if (is_kept_.exchange(false)) std::rethrow_exception(std::exchange(exception_, nullptr));
  }

 private:
  std::atomic<bool> is_kept_{false};
  std::exception_ptr exception_;  // written by the thread that set is_kept_
};

// For which job some code runs, and on which thread of the host. Jobs, sub-jobs and bursts of loops
// each receive one; it is valid until they return, and only on their thread.
class Context {
 public:
  explicit Context(locksley_context& context) : context_(context) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  std::uint64_t index() const { return host().index(&context_); }
  std::uint32_t attempt() const { return host().attempt(&context_); }
  std::string_view batch_id() const { return view(host().batch_id(&context_)); }
  std::string_view tenant() const { return view(host().tenant(&context_)); }
  std::string_view trace() const { return view(host().trace(&context_)); }

  // Whether the job's batch was cancelled or its time limit has passed. Any thread may call it
  // while the job runs. A long job calls it from time to time, and then calls give_up() or returns.
  StopReason stop_reason() const { return static_cast<StopReason>(host().stop_reason(&context_)); }
  bool should_stop() const { return stop_reason() != StopReason::kNone; }
  // Time until the job's limit; nanoseconds::max() if it has none.
  std::chrono::nanoseconds time_left() const {
    const std::int64_t left = host().time_left(&context_);
    return left < 0 ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds(left);
  }
  // Blocks the thread for `duration`, or until the job should stop.
  void sleep_for(std::chrono::nanoseconds duration) const {
    if (duration.count() > 0) host().sleep(&context_, static_cast<std::uint64_t>(duration.count()));
  }

  // Calls body(i) for every i in [low, high), on this thread and on idle ones; or body(IndexRange),
  // or body(Context&, IndexRange), for ranges that together are [low, high). Returns when all are
  // done. The first exception that a body throws is thrown again here, after the rest was dropped.
  // If the job should stop, the rest is dropped, and this returns. `grain`: the most indexes of a
  // range; 0 lets the host choose.
  template <class Body>
  void parallel_for(std::uint64_t low, std::uint64_t high, Body&& body, std::uint64_t grain = 0);

  const locksley_host& host() const { return *context_.host; }
  locksley_context& abi() { return context_; }

 protected:
  // Throws the host's failure, if it was one.
  void expect(std::int32_t result) const {
    if (result != LOCKSLEY_OK) throw HostError(std::string(view(host().failure(&context_))));
  }

 private:
  friend class TaskGroup;

  locksley_context& context_;
};

// The context of a job itself, as opposed to its sub-jobs: it also has an output, and can fail
// without an exception.
class Job : public Context {
 public:
  using Context::Context;

  // Appends to the job's output.
  void write(std::string_view bytes) { expect(host().write(&abi(), text(bytes))); }
  // The job ends as `error`, with this text in place of its output, whatever it writes. The last
  // call counts.
  void fail(std::string_view message) { outcome_ = host().fail(&abi(), text(message)); }
  // The job ends with the status `cancelled` or `timeout`. No effect if it was not asked to stop.
  void give_up() {
    if (should_stop()) outcome_ = LOCKSLEY_GAVE_UP;
  }

  std::int32_t outcome() const { return outcome_; }

 private:
  std::int32_t outcome_ = LOCKSLEY_OK;
};

// Sub-jobs of one job, and the wait for them. Lives on the stack of the code that spawns and waits;
// only that thread calls it. The destructor waits, so no sub-job outlives the variables that it
// uses.
class TaskGroup {
 public:
  explicit TaskGroup(Context& context) : context_(context) {
    context.host().group_begin(&context.abi(), &group_);
  }
  ~TaskGroup() { context_.host().group_end(&group_); }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Queues `function(Context&)` on this thread: run by wait(), last in first out, unless another
  // thread takes it before, oldest first. Does not allocate for closures of up to 56 bytes that can
  // be copied as bytes, such as references and numbers.
  template <class F>
  void spawn(F&& function);

  // Runs sub-jobs until all of the group have ended. The first exception of one is thrown again
  // here. Hold no lock during this call, nor during the destructor: locksley_host::wait says why.
  void wait() {
    context_.expect(context_.host().wait(&group_));
    first_.rethrow();
  }

 private:
  template <class F>
  struct Closure {
    FirstException* first;
    F function;

    void operator()(locksley_context& context) noexcept {
      try {
        Context here(context);
        function(here);
      } catch (...) {
        first->keep();
      }
    }
  };

  Context& context_;
  locksley_group group_;
  FirstException first_;
};

// The argument of the constructor of a plugin's class. The host constructs it before the first job.
class Setup {
 public:
  explicit Setup(locksley_setup& setup) : setup_(setup) {}
  // The handler's name in the configuration.
  std::string_view handler() const { return view(setup_.handler); }

 private:
  locksley_setup& setup_;
};

template <class Body>
void Context::parallel_for(std::uint64_t low, std::uint64_t high, Body&& body, std::uint64_t grain) {
  using Run = std::remove_reference_t<Body>;
  struct Loop {
    Run& body;
    FirstException first;
  } loop{body, {}};
  const locksley_body run = [](locksley_context* context, void* argument, std::uint64_t from,
                               std::uint64_t to) noexcept -> std::int32_t {
    auto& here = *static_cast<Loop*>(argument);
    try {
      // Indexes are asked for first: a generic lambda may not compile with a range.
      if constexpr (std::is_invocable_v<Run&, std::uint64_t>) {
        for (std::uint64_t i = from; i < to; ++i) here.body(i);
      } else if constexpr (std::is_invocable_v<Run&, Context&, IndexRange>) {
        Context there(*context);
        here.body(there, IndexRange{from, to});
      } else {
        here.body(IndexRange{from, to});
      }
      return LOCKSLEY_OK;
    } catch (...) {
      here.first.keep();
      return LOCKSLEY_FAILED;
    }
  };
  const std::int32_t result = host().parallel_for(&context_, low, high, grain, run, &loop);
  loop.first.rethrow();
  expect(result);
}

template <class F>
void TaskGroup::spawn(F&& function) {
  using Held = Closure<std::decay_t<F>>;
  const locksley_host& host = context_.host();
  if constexpr (std::is_trivially_copyable_v<Held> && sizeof(Held) <= LOCKSLEY_MOST_ARGUMENT &&
                alignof(Held) <= 16) {
    const Held held{&first_, std::forward<F>(function)};
    const locksley_task run = [](locksley_context* context, void* argument) noexcept -> std::int32_t {
      (*std::launder(static_cast<Held*>(argument)))(*context);
      return LOCKSLEY_OK;  // its exception is in first_
    };
    context_.expect(host.spawn(&group_, run, &held, sizeof(held)));
  } else {
    auto held = std::unique_ptr<Held>(new Held{&first_, std::forward<F>(function)});
    Held* const pointer = held.get();
    const locksley_task run = [](locksley_context* context, void* argument) noexcept -> std::int32_t {
      Held* there = nullptr;
      std::memcpy(static_cast<void*>(&there), argument, sizeof(there));
      (*std::unique_ptr<Held>(there))(*context);
      return LOCKSLEY_OK;
    };
    context_.expect(host.spawn(&group_, run, static_cast<const void*>(&pointer), sizeof(pointer)));
    (void)held.release();  // the sub-job owns it
  }
}

// The functions of a plugin whose jobs an object runs. init() constructs the object, from a Setup&
// if its constructor takes one. run() calls `object(Job&, std::string_view)`, which is const
// because many threads call it at once.
template <class Object>
struct Functions {
  static std::int32_t init(locksley_setup* setup, void** state) noexcept {
    try {
      if constexpr (std::is_constructible_v<Object, Setup&>) {
        Setup given(*setup);
        *state = new Object(given);
      } else {
        *state = new Object();
      }
      return LOCKSLEY_OK;
    } catch (const std::exception& exception) {
      return setup->fail(setup, text(exception.what()));
    } catch (...) {
      return setup->fail(setup, text("it threw something that is no std::exception"));
    }
  }

  static void teardown(void* state) noexcept { delete static_cast<Object*>(state); }

  static std::int32_t run(void* state, locksley_context* context, locksley_text payload) noexcept {
    try {
      Job job(*context);
      (*static_cast<const Object*>(state))(job, view(payload));
      return job.outcome();
    } catch (const std::exception& exception) {
      return context->host->fail(context, text(exception.what()));
    } catch (...) {
      return context->host->fail(context, text("the handler threw something that is no std::exception"));
    }
  }
};

template <class Object>
locksley_plugin describe(std::string_view name, std::string_view description) {
  using These = Functions<Object>;
  return {LOCKSLEY_PLUGIN_ABI, sizeof(locksley_plugin), text(name), text(description),
          These::init,         These::teardown,         These::run};
}

// For the macro: the type of a lambda that captures nothing.
template <class Lambda>
locksley_plugin describe(std::string_view name, std::string_view description, const Lambda&) {
  static_assert(std::is_empty_v<Lambda>, "a lambda that captures nothing; else LOCKSLEY_PLUGIN_CLASS");
  return describe<Lambda>(name, description);
}

}  // namespace locksley::plugin

// The plugin of a shared object, once in it, outside any namespace. The last argument is a lambda
// without captures.
#define LOCKSLEY_PLUGIN(name, description, ...)                                                       \
  extern "C" const locksley_plugin* locksley_plugin_entry() {                                         \
    static const locksley_plugin plugin = locksley::plugin::describe(name, description, __VA_ARGS__); \
    return &plugin;                                                                                   \
  }

// The same with a class: made once for each handler, before its first job, and destroyed after its
// last. An exception of its constructor keeps the host from starting.
#define LOCKSLEY_PLUGIN_CLASS(name, description, ...)                                                 \
  extern "C" const locksley_plugin* locksley_plugin_entry() {                                         \
    static const locksley_plugin plugin = locksley::plugin::describe<__VA_ARGS__>(name, description); \
    return &plugin;                                                                                   \
  }
