#include "daemon/server/batches/handler_directory.h"

#include <stdexcept>

#include "core/base/check.h"

namespace locksley::daemon {

// All batches of such a handler are held, or are in a lane of their own.
void HandlerDirectory::run_elsewhere(JobContext&, std::string_view) {
  throw std::logic_error("no worker of the pool runs the jobs of this handler");
}

void HandlerDirectory::remove(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  missing_.emplace(found->first,
                   Entry{.handler = entry.handler, .lane = entry.lane, .kind = "missing", .is_held = true});
  entries_.erase(found);
}

void HandlerDirectory::set_held(std::string_view name, bool is_held) {
  if (const auto found = entries_.find(name); found != entries_.end()) found->second.is_held = is_held;
}

const HandlerDirectory::Entry& HandlerDirectory::for_batch(const std::string& name) {
  if (const Entry* const known = find_any(name)) return *known;
  check(!entries_.empty(), "there is no lane for a batch of a handler that is missing");
  // Where it waits is all the same.
  return missing_
      .emplace(name, Entry{.handler = handler_of(name),
                           .lane = entries_.begin()->second.lane,
                           .kind = "missing",
                           .is_held = true})
      .first->second;
}

Handler& HandlerDirectory::handler_of(const std::string& name) {
  std::unique_ptr<Handler>& handler = handlers_[name];
  if (handler == nullptr) handler = std::make_unique<Handler>(name, "not configured any more", run_elsewhere);
  return *handler;
}

}  // namespace locksley::daemon
