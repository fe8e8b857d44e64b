#include "daemon/handlers/plugin_lone_host.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/plugin/plugin_text.h"
#include "daemon/handlers/plugin_context.h"

namespace locksley::daemon {
namespace {

extern const locksley_host kLoneHost;

struct Group;

// A sub-job that has not run.
struct Queued {
  Group* group;
  locksley_task run;
  alignas(16) std::array<std::byte, LOCKSLEY_MOST_ARGUMENT> argument;
};

// The running job, shared by its sub-jobs.
struct Running {
  const LoneJob& job;
  std::string output;
  std::vector<Queued> queue;
};

// A context of the ABI: on the stack, while a function of the plugin runs.
struct Place : PluginContext {
  Place(Running& of, bool job_itself) : PluginContext(kLoneHost), running(of), is_job(job_itself) {}

  Running& running;
  const bool is_job;  // false: a sub-job or a burst of a loop
};

Place& place(locksley_context* context) { return *static_cast<Place*>(context); }
const Place& place(const locksley_context* context) { return *static_cast<const Place*>(context); }

// A group, in memory that the plugin provides.
struct Group {
  explicit Group(Place& of) : place(of) {}
  Place& place;
  std::uint64_t queued = 0;
  bool has_failed = false;
  std::string failure;  // of the first sub-job that failed
};

Group& group_in(locksley_group* memory) { return plugin_group<Group>(memory); }

// Also runs the sub-jobs above the group's own in the queue, as a worker of the pool does.
void run_all(Group& group) {
  Running& running = group.place.running;
  while (group.queued != 0) {
    Queued next = running.queue.back();
    running.queue.pop_back();
    --next.group->queued;
    Place below(running, false);
    if (next.run(&below, next.argument.data()) == LOCKSLEY_OK) continue;
    if (!std::exchange(next.group->has_failed, true)) next.group->failure = below.reason();
  }
}

std::uint64_t index(const locksley_context* context) { return place(context).running.job.index; }
std::uint32_t attempt(const locksley_context*) { return 1; }
locksley_text batch_id(const locksley_context* context) { return text(place(context).running.job.batch_id); }
locksley_text unknown(const locksley_context*) { return {nullptr, 0}; }
std::int32_t stop_reason(const locksley_context*) { return LOCKSLEY_GO_ON; }
std::int64_t time_left(const locksley_context*) { return -1; }

void sleep(const locksley_context*, std::uint64_t nanoseconds) {
  std::this_thread::sleep_for(plugin_sleep(nanoseconds));
}

std::int32_t write(locksley_context* context, locksley_text bytes) {
  Place& here = place(context);
  if (!here.is_job) return plugin_fail(context, text(kOnlyTheJobWrites));
  return guarded(here, [&] { here.running.output.append(view(bytes)); });
}

void group_begin(locksley_context* context, locksley_group* memory) {
  ::new (static_cast<void*>(memory)) Group(place(context));
}

void group_end(locksley_group* memory) {
  Group& group = group_in(memory);
  run_all(group);
  group.~Group();
}

std::int32_t spawn(locksley_group* memory, locksley_task task, const void* argument, std::size_t size) {
  Group& group = group_in(memory);
  if (size > LOCKSLEY_MOST_ARGUMENT) return plugin_fail(&group.place, text(kLargeArgument));
  return guarded(group.place, [&] {
    Queued& queued = group.place.running.queue.emplace_back(Queued{&group, task, {}});
    if (size != 0) std::memcpy(queued.argument.data(), argument, size);
    ++group.queued;
  });
}

std::int32_t wait(locksley_group* memory) {
  Group& group = group_in(memory);
  run_all(group);
  if (!std::exchange(group.has_failed, false)) return LOCKSLEY_OK;
  return plugin_fail(&group.place, text(group.failure));
}

std::int32_t parallel_for(locksley_context* context, std::uint64_t low, std::uint64_t high,
                          std::uint64_t grain, locksley_body body, void* argument) {
  const std::uint64_t most = grain == 0 ? std::numeric_limits<std::uint64_t>::max() : grain;
  while (low < high) {
    const std::uint64_t end = low + std::min(high - low, most);
    Place below(place(context).running, false);
    if (body(&below, argument, low, end) != LOCKSLEY_OK) return plugin_fail(context, text(below.reason()));
    low = end;
  }
  return LOCKSLEY_OK;
}

const locksley_host kLoneHost = {
    .abi = LOCKSLEY_PLUGIN_ABI,
    .size = sizeof(locksley_host),
    .index = index,
    .attempt = attempt,
    .batch_id = batch_id,
    .tenant = unknown,
    .trace = unknown,
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

LoneResult run_plugin_job_alone(const locksley_plugin& plugin, void* state, const LoneJob& job,
                                std::string_view payload) {
  Running running{job, {}, {}};
  Place place(running, true);
  switch (plugin.run(state, &place, text(payload))) {
    case LOCKSLEY_OK:
      return {true, std::move(running.output)};
    case LOCKSLEY_GAVE_UP:
      return {false, std::string(kGaveUpUnasked)};
    default:
      return {false, place.reason()};
  }
}

}  // namespace locksley::daemon
