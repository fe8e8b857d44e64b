#include "daemon/http/router.h"

#include <utility>

namespace locksley::daemon {

void Router::get(std::string path, Page page) {
  entries_.push_back({std::move(path), false, std::move(page)});
}

void Router::get_below(std::string prefix, Page page) {
  entries_.push_back({std::move(prefix), true, std::move(page)});
}

const Router::Entry* Router::find(std::string_view path) const {
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    if (path == entry.path) return &entry;
    if (entry.below && path.starts_with(entry.path) && (!best || entry.path.size() > best->path.size())) {
      best = &entry;
    }
  }
  return best;
}

HttpReply Router::route(const HttpRequest& request) const {
  const Entry* entry = find(request.path);
  if (!entry) return {.status = HttpStatus::not_found, .body = "not found\n"};
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = HttpStatus::method_not_allowed, .body = "only GET and HEAD\n"};
  }
  return entry->page(request);
}

}  // namespace locksley::daemon
