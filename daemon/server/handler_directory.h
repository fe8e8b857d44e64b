#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/handler.h"
#include "core/lane.h"

namespace locksley::daemon {

// Which handlers there are, and which lane runs the jobs of each; and those that batches name and that are
// not there, because the configuration has them no more: their batches wait for them.
//
// Filled by main() before the server starts, changed with the configuration; outlives the server. It refers
// to handlers and lanes that live as long. The I/O thread only.
class HandlerDirectory {
 public:
  struct Entry {
    Handler& handler;
    Lane& lane;
    std::string kind;               // builtin, plugin, command, worker; missing: it is not there
    std::uint32_t concurrency = 0;  // jobs at once; 0: as many as the pool has workers
    // Of a batch that says nothing else itself.
    std::chrono::milliseconds timeout{0};  // of a job; 0: none
    std::uint32_t retries = 0;             // of a failed job
    // Whether its jobs wait because the configuration limits their rate; any thread. Empty: never.
    std::function<bool()> is_at_rate = {};
    // No job of it may begin: it is not there, or is being replaced.
    bool is_held = false;

    // For as long as the process lives.
    bool is_built_in() const { return kind == "builtin"; }
  };

  // In the place of the one of this name, if there is one.
  void add(Entry entry) {
    const std::string name = entry.handler.name();
    missing_.erase(name);
    entries_.erase(name);
    entries_.emplace(name, std::move(entry));
  }
  // From now on it is missing.
  void remove(std::string_view name);
  // Whether jobs of it may begin.
  void set_held(std::string_view name, bool is_held);

  // Null if there is none of this name.
  const Entry* find(std::string_view name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }
  // One that is there, or is known to be missing; null: neither.
  const Entry* find_any(std::string_view name) const {
    const auto found = missing_.find(name);
    return found == missing_.end() ? find(name) : &found->second;
  }
  // The same, for a batch that there is. One that is not known is missing from now on.
  const Entry& for_batch(const std::string& name);

  // What a handler runs that no worker of the pool has to run: throws.
  static void run_elsewhere(JobContext& context, std::string_view payload);
  // The one handler of this name that the configuration gives: whatever becomes of it, its batches and its
  // counters stay with this. Made when it is first asked for.
  Handler& handler_of(const std::string& name);

  // By name.
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [name, entry] : entries_) result.push_back(name);
    return result;
  }

 private:
  std::map<std::string, std::unique_ptr<Handler>, std::less<>> handlers_;  // those of handler_of()
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, Entry, std::less<>> missing_;
};

}  // namespace locksley::daemon
