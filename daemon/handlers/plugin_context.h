// What both hosts of plugins have in common: the contexts that a plugin gets, and what happens at
// the border of the ABI.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "core/base/job.h"
#include "core/plugin.h"
#include "daemon/base/plugin/plugin_text.h"

namespace locksley::daemon {

// A context of the ABI. It lives on the stack while a function of the plugin runs. Each host
// derives its own class, so that the host can cast a context that comes back from a plugin. Only
// the thread that runs the function uses it.
struct PluginContext : locksley_context {
  explicit PluginContext(const locksley_host& table) : locksley_context{&table} {}

  std::string reason() const { return failure.empty() ? std::string(kNoReason) : failure; }

  std::string failure;  // of the last fail()
};

// Makes a call, and turns its exceptions into failures: no exception may cross the ABI.
template <class Call>
std::int32_t guarded(PluginContext& context, const Call& call) {
  try {
    call();
    return LOCKSLEY_OK;
  } catch (const std::exception& exception) {
    context.failure = exception.what();
  } catch (...) {
    context.failure = "an exception was thrown that is no std::exception";
  }
  return LOCKSLEY_FAILED;
}

// Two entries of a host's table.
inline std::int32_t plugin_fail(locksley_context* context, locksley_text why) {
  auto& here = *static_cast<PluginContext*>(context);
  (void)guarded(here, [&] { here.failure = view(why); });
  return LOCKSLEY_FAILED;
}
inline locksley_text plugin_failure(const locksley_context* context) {
  return text(static_cast<const PluginContext*>(context)->failure);
}

// How long `sleep` sleeps: at most 100 years, which can be added to the current time without
// overflow.
inline Nanoseconds plugin_sleep(std::uint64_t nanoseconds) {
  constexpr std::uint64_t kLongest = std::chrono::nanoseconds(std::chrono::years(100)).count();
  return Nanoseconds(std::min(nanoseconds, kLongest));
}

// A host's group, which lies in memory that the plugin provides.
template <class Group>
Group& plugin_group(locksley_group* memory) {
  static_assert(sizeof(Group) <= sizeof(locksley_group) && alignof(Group) <= alignof(locksley_group));
  return *std::launder(reinterpret_cast<Group*>(memory));
}

}  // namespace locksley::daemon
