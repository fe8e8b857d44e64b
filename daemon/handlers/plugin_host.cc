#include "daemon/handlers/plugin_host.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "core/tasks/parallel_for.h"
#include "core/tasks/task_group.h"
#include "daemon/base/plugin/plugin_text.h"
#include "daemon/handlers/plugin_context.h"

namespace locksley::daemon {
namespace {

extern const locksley_host kHost;

// A context of the ABI: on the stack, while a function of the plugin runs.
struct Place : PluginContext {
  Place(Context& at, JobContext* of) : PluginContext(kHost), here(at), job(of) {}

  Context& here;
  JobContext* job;  // null in a sub-job or in a burst of a loop
};

Place& place(locksley_context* context) { return *static_cast<Place*>(context); }
const Place& place(const locksley_context* context) { return *static_cast<const Place*>(context); }

// Runs a sub-job, or a burst of a loop. Its failure becomes an exception on the host's side of the
// ABI, which reaches the waiting caller.
template <class Call>
void run_below(Context& context, const Call& call) {
  Place below(context, nullptr);
  if (call(&below) != LOCKSLEY_OK) throw std::runtime_error(below.reason());
}

// A group, in memory that the plugin provides.
struct Group {
  explicit Group(Place& of) : place(of), tasks(of.here) {}
  Place& place;
  TaskGroup tasks;
};

Group& group_in(locksley_group* memory) { return plugin_group<Group>(memory); }

// The closure of a sub-job, stored in its task together with its argument.
struct Spawned {
  Spawned(locksley_task task, const void* from, std::size_t size) : run(task) {
    if (size != 0) std::memcpy(argument.data(), from, size);
  }
  void operator()(Context& context) {
    run_below(context, [this](locksley_context* below) { return run(below, argument.data()); });
  }
  locksley_task run;
  alignas(16) std::array<std::byte, LOCKSLEY_MOST_ARGUMENT> argument{};
};
static_assert(sizeof(Spawned) <= Task::kInlineBytes);

std::uint64_t index(const locksley_context* context) { return place(context).here.index(); }
std::uint32_t attempt(const locksley_context* context) { return place(context).here.attempt(); }
locksley_text batch_id(const locksley_context* context) { return text(place(context).here.batch_id()); }
locksley_text tenant(const locksley_context* context) { return text(place(context).here.tenant()); }
locksley_text trace(const locksley_context* context) { return text(place(context).here.trace()); }

std::int32_t stop_reason(const locksley_context* context) {
  switch (place(context).here.stop_reason()) {
    case StopReason::kNone:
      return LOCKSLEY_GO_ON;
    case StopReason::kCancelled:
      return LOCKSLEY_CANCELLED;
    case StopReason::kTimeout:
      break;
  }
  return LOCKSLEY_TIMED_OUT;
}

std::int64_t time_left(const locksley_context* context) {
  const Instant limit = place(context).here.frame().time_limit;
  return limit == kNever ? -1 : std::max<std::int64_t>(Nanoseconds(limit - Instant::clock::now()).count(), 0);
}

void sleep(const locksley_context* context, std::uint64_t nanoseconds) {
  place(context).here.sleep_for(plugin_sleep(nanoseconds));
}

std::int32_t write(locksley_context* context, locksley_text bytes) {
  JobContext* const job = place(context).job;
  if (job == nullptr) return plugin_fail(context, text(kOnlyTheJobWrites));
  return guarded(place(context), [&] { job->write(view(bytes)); });
}

void group_begin(locksley_context* context, locksley_group* memory) {
  ::new (static_cast<void*>(memory)) Group(place(context));
}

void group_end(locksley_group* memory) { group_in(memory).~Group(); }

std::int32_t spawn(locksley_group* memory, locksley_task task, const void* argument, std::size_t size) {
  Group& group = group_in(memory);
  if (size > LOCKSLEY_MOST_ARGUMENT) return plugin_fail(&group.place, text(kLargeArgument));
  return guarded(group.place, [&] { group.tasks.spawn(Spawned(task, argument, size)); });
}

std::int32_t wait(locksley_group* memory) {
  Group& group = group_in(memory);
  return guarded(group.place, [&] { group.tasks.wait(); });
}

std::int32_t parallel_for(locksley_context* context, std::uint64_t low, std::uint64_t high,
                          std::uint64_t grain, locksley_body body, void* argument) {
  const auto burst = [&](Context& there, IndexRange range) {
    run_below(there, [&](locksley_context* below) { return body(below, argument, range.low, range.high); });
  };
  return guarded(place(context), [&] { place(context).here.parallel_for(low, high, burst, grain); });
}

const locksley_host kHost = {
    .abi = LOCKSLEY_PLUGIN_ABI,
    .size = sizeof(locksley_host),
    .index = index,
    .attempt = attempt,
    .batch_id = batch_id,
    .tenant = tenant,
    .trace = trace,
    .stop_reason = stop_reason,
    .time_left = time_left,
    .sleep = sleep,
    .write = write,
    .fail = plugin_fail,
    .failure = plugin_failure,
    .group_begin = group_begin,
    .group_end = group_end,
    .spawn = spawn,
    .wait = wait,
    .parallel_for = parallel_for,
};

}  // namespace

void run_plugin_job(const locksley_plugin& plugin, void* state, JobContext& context,
                    std::string_view payload) {
  Place place(context, &context);
  switch (plugin.run(state, &place, text(payload))) {
    case LOCKSLEY_OK:
      return;
    case LOCKSLEY_GAVE_UP:
      if (context.should_stop()) return context.give_up();
      return context.fail(kGaveUpUnasked);
    default:
      return context.fail(place.reason());
  }
}

}  // namespace locksley::daemon
