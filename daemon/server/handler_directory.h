#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/handler.h"
#include "core/lane.h"

namespace locksley::daemon {

// Which handlers there are, and which lane runs the jobs of each.
//
// Filled by main() before the server starts, constant afterwards; outlives the server. It refers to handlers
// and lanes that main() owns. Constant: any thread may look.
class HandlerDirectory {
 public:
  struct Entry {
    Handler& handler;
    Lane& lane;
    std::string kind;               // builtin, plugin, command or worker
    std::uint32_t concurrency = 0;  // jobs at once; 0: as many as the pool has workers
    // Of a batch that says nothing else itself.
    std::chrono::milliseconds timeout{0};  // of a job; 0: none
    std::uint32_t retries = 0;             // of a failed job
    // Whether its jobs wait because the configuration limits their rate; any thread. Empty: never.
    std::function<bool()> is_at_rate = {};
  };

  void add(Entry entry) { entries_.emplace(entry.handler.name(), std::move(entry)); }

  // Null if there is none of this name.
  const Entry* find(std::string_view name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }

  // By name.
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [name, entry] : entries_) result.push_back(name);
    return result;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace locksley::daemon
