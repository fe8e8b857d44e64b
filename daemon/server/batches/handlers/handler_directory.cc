#include "daemon/server/batches/handlers/handler_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "config/nearest.h"
#include "core/base/check.h"
#include "daemon/server/accounts/users.h"
#include "proto/text.h"

namespace locksley::daemon {

// All batches of such a handler are held, or are in a lane of their own.
void HandlerDirectory::run_elsewhere(JobContext&, std::string_view) {
  throw std::logic_error("no worker of the pool runs the jobs of this handler");
}

void HandlerDirectory::remove(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  missing_.emplace(found->first, Entry{.handler = entry.handler,
                                       .lane = entry.lane,
                                       .gate = entry.gate,
                                       .kind = HandlerKind::kMissing,
                                       .is_held = true});
  entries_.erase(found);
}

void HandlerDirectory::set_held(std::string_view name, bool is_held) {
  if (const auto found = entries_.find(name); found != entries_.end()) found->second.is_held = is_held;
}

const HandlerDirectory::Entry& HandlerDirectory::for_batch(const std::string& name) {
  if (const Entry* const known = find_any(name)) return *known;
  check(!entries_.empty(), "there is no lane for a batch of a handler that is missing");
  // The handler's batches may wait in any lane.
  return missing_
      .emplace(name, Entry{.handler = handler_of(name),
                           .lane = entries_.begin()->second.lane,
                           .kind = HandlerKind::kMissing,
                           .is_held = true})
      .first->second;
}

Handler& HandlerDirectory::handler_of(const std::string& name) {
  std::unique_ptr<Handler>& handler = handlers_[name];
  if (handler == nullptr) handler = std::make_unique<Handler>(name, "not configured any more", run_elsewhere);
  return *handler;
}

namespace {

// The names of the handlers that the user may use.
std::vector<std::string> names_for(const HandlerDirectory& handlers, const User& by)
    LOCKSLEY_REQUIRES(kIoThread) {
  std::vector<std::string> names = handlers.names();
  std::erase_if(names, [&by](const std::string& name) { return !by.may_use(name); });
  return names;
}

// The end of the error about the name; empty: no similar name exists.
std::string guess(std::string_view name, const std::vector<std::string>& names) {
  const std::string near = config::nearest_name(name, names);
  return near.empty() ? near : fmt::format("; did you mean '{}'?", near);
}

}  // namespace

std::string forbidden_handler_error(const HandlerDirectory& handlers, const User& by, std::string_view name) {
  // The guess must not depend on whether a handler of this name exists.
  return no_handler_permission_error(by, name) +
         (is_opt_in(name) ? "" : guess(name, names_for(handlers, by)));
}

std::expected<const HandlerDirectory::Entry*, std::string> usable_handler(const HandlerDirectory& handlers,
                                                                          const User& by,
                                                                          const std::string& name) {
  if (!by.may_use(name)) return std::unexpected(forbidden_handler_error(handlers, by, name));
  if (const HandlerDirectory::Entry* entry = handlers.find(name)) return entry;
  const std::vector<std::string> names = names_for(handlers, by);
  std::string text =
      fmt::format("NOHANDLER no handler is named '{}'", proto::printable(name)) + guess(name, names);
  constexpr std::size_t kMostNames = 20;  // guess: still one readable line
  text += text.ends_with('?') ? " There are: " : ". There are: ";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNames) text += ", …";
  return std::unexpected(std::move(text));
}

}  // namespace locksley::daemon
