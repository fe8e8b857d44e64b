// The kinds of handlers, by what runs their jobs.
#pragma once

#include <cstdint>
#include <string_view>

namespace locksley::daemon {

// What runs the jobs of a handler. HANDLERS, the HTTP API and the log show it by its name.
enum class HandlerKind : std::uint8_t {
  kBuiltin,  // the pool, by code of the daemon
  kPlugin,   // the code of a shared object, on the pool or in processes of its own
  kCommand,  // a process for each job
  kWorker,   // processes, each of which takes job after job
  kExec,     // a process for each job, whose command is the payload
  kRemote,   // remote workers alone
  kMissing,  // nothing: the handler is not configured
};

constexpr std::string_view to_string(HandlerKind kind) {
  switch (kind) {
    case HandlerKind::kBuiltin:
      return "builtin";
    case HandlerKind::kPlugin:
      return "plugin";
    case HandlerKind::kCommand:
      return "command";
    case HandlerKind::kWorker:
      return "worker";
    case HandlerKind::kExec:
      return "exec";
    case HandlerKind::kRemote:
      return "remote";
    case HandlerKind::kMissing:
      return "missing";
  }
  return {};
}

}  // namespace locksley::daemon
