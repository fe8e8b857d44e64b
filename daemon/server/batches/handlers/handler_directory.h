// The handlers that batches may name, and the lane of each.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "daemon/base/handler_kind.h"
#include "daemon/base/loop/io_thread.h"

namespace locksley::daemon {

class User;

// The configured handlers, and the lane that runs the jobs of each; and the missing handlers, which
// batches name but which are no longer configured. Batches of a missing handler wait until it is
// configured again.
//
// Owned by the HandlerSet, which fills it before the server starts and changes it with the
// configuration; outlives the server. It owns the handlers of handler_of(); all others, and the
// lanes, outlive it. The I/O thread only. Nothing blocks. Only allocation fails.
class HandlerDirectory {
 public:
  struct Entry {
    Handler& handler;
    Lane& lane;
    GateId gate = 0;  // of its lane
    HandlerKind kind = HandlerKind::kMissing;
    std::uint32_t concurrency = 0;  // jobs at once, within its lane; 0: as many as the pool has workers
    // Defaults for its batches.
    std::chrono::milliseconds timeout{0};  // of a job; 0: none
    std::uint32_t retries = 0;             // of a failed job
    // Whether its jobs wait now because their rate is limited; called by any thread. Empty: never.
    std::function<bool()> is_at_rate = {};
    // Whether its jobs wait now because its processes cannot work; called by any thread. Empty:
    // never.
    std::function<bool()> is_backing_off = {};
    // Its processes now; called by any thread. Empty: it has none.
    std::function<std::uint32_t()> processes = {};
    // Replaces its processes one by one, each after its jobs; returns how many. Empty: it has none.
    std::function<std::uint32_t()> restart = {};
    bool is_remote = false;  // remote workers may run its jobs
    // How many bytes an output of its jobs may have; 0: as many as a reply.
    std::uint64_t max_output = 0;
    // Its jobs must not start: it is missing, or is being replaced.
    bool is_held = false;

    // A built-in handler never changes while the process lives.
    bool is_built_in() const { return kind == HandlerKind::kBuiltin; }
    // How many bytes an output of its batches may have, if a reply may have `most`; 0: no bound.
    std::uint64_t most_output(std::uint64_t most) const {
      return max_output == 0 ? most : most == 0 ? max_output : std::min(most, max_output);
    }
  };

  // Adds a handler, or replaces the handler of this name.
  void add(Entry entry) LOCKSLEY_REQUIRES(kIoThread) {
    const std::string name = entry.handler.name();
    missing_.erase(name);
    entries_.erase(name);
    entries_.emplace(name, std::move(entry));
  }
  // The handler is missing from now on.
  void remove(std::string_view name) LOCKSLEY_REQUIRES(kIoThread);
  // Sets whether its jobs must not start.
  void set_held(std::string_view name, bool is_held) LOCKSLEY_REQUIRES(kIoThread);

  // The configured handler of this name; null if there is none.
  const Entry* find(std::string_view name) const LOCKSLEY_REQUIRES(kIoThread) {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }
  // The handler of this name, configured or missing; null if it is neither.
  const Entry* find_any(std::string_view name) const LOCKSLEY_REQUIRES(kIoThread) {
    const auto found = missing_.find(name);
    return found == missing_.end() ? find(name) : &found->second;
  }
  // The same for the handler that a batch names. A name that is not known is added as missing.
  const Entry& for_batch(const std::string& name) LOCKSLEY_REQUIRES(kIoThread);

  // The function of a handler whose jobs no worker of the pool runs. Throws.
  static void run_elsewhere(JobContext& context, std::string_view payload);
  // The Handler object for this name, made by the first call. It stays the same when the
  // configuration of the handler changes, so that batches and counters keep referring to it.
  Handler& handler_of(const std::string& name) LOCKSLEY_REQUIRES(kIoThread);

  // The configured handlers, by name.
  const std::map<std::string, Entry, std::less<>>& entries() const LOCKSLEY_REQUIRES(kIoThread) {
    return entries_;
  }
  // The missing handlers, by name.
  const std::map<std::string, Entry, std::less<>>& missing() const LOCKSLEY_REQUIRES(kIoThread) {
    return missing_;
  }
  std::vector<std::string> names() const LOCKSLEY_REQUIRES(kIoThread) {
    std::vector<std::string> result;
    for (const auto& [name, entry] : entries_) result.push_back(name);
    return result;
  }

 private:
  std::map<std::string, std::unique_ptr<Handler>, std::less<>> handlers_
      LOCKSLEY_GUARDED_BY(kIoThread);  // those of handler_of()
  std::map<std::string, Entry, std::less<>> entries_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::map<std::string, Entry, std::less<>> missing_ LOCKSLEY_GUARDED_BY(kIoThread);
};

// The configured handler of this name, if the user may use it. The error is the text of the error
// reply. A user who may not use a handler does not learn whether there is one of this name.
std::expected<const HandlerDirectory::Entry*, std::string> usable_handler(const HandlerDirectory& handlers,
                                                                          const User& by,
                                                                          const std::string& name)
    LOCKSLEY_REQUIRES(kIoThread);
// The error for a name that the user may not use, or probably has mistyped: it proposes a handler
// that the user may use, if one has a similar name.
std::string forbidden_handler_error(const HandlerDirectory& handlers, const User& by, std::string_view name)
    LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
