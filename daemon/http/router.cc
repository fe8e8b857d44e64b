#include "daemon/http/router.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "daemon/http/hosts.h"

namespace locksley::daemon {

void HttpAnswer::operator()(HttpReply reply) const {
  if (!state_->give) return;
  state_->waiting.reset();
  Give give = std::exchange(state_->give, {});
  give(std::move(reply));
}

void Router::get(std::string path, Access access, Page page) {
  entries_.push_back({std::move(path), false, access, std::move(page)});
}

void Router::get_below(std::string prefix, Access access, Page page) {
  entries_.push_back({std::move(prefix), true, access, std::move(page)});
}

void Router::post_below(std::string_view prefix, Page page) {
  const auto known = std::ranges::find_if(
      entries_, [prefix](const Entry& entry) { return entry.below && entry.path == prefix; });
  check(known != entries_.end(), "POST below a prefix without a handler");
  known->post = std::move(page);
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
  if (!entry) return {.status = HttpStatus::kNotFound, .body = "not found\n"};
  const bool is_post = request.method == "POST" && entry->post;
  if (!is_post && request.method != "GET" && request.method != "HEAD") {
    const std::string allowed = entry->post ? "GET, HEAD, POST" : "GET, HEAD";
    return {.status = HttpStatus::kMethodNotAllowed,
            .body = "only " + allowed + "\n",
            .fields = {"Allow: " + allowed}};
  }
  if (is_foreign_host(*entry, request)) {
    return {.status = HttpStatus::kForbidden,
            .body =
                "DENIED without a login this is served under an IP address, localhost, the machine's name "
                "and the names in http.hosts only\n"};
  }
  if (entry->access == Access::kOperators && !request.caller.sees_all()) {
    return {.status = HttpStatus::kForbidden,
            .body = "only for the token, and for users with the group admin\n"};
  }
  if (auto refused = refuse_now(request)) return std::move(*refused);
  return is_post ? entry->post(request) : entry->page(request);
}

std::optional<HttpReply> Router::refuse_now(const HttpRequest& request) const {
  const Entry* entry = find(request.path);
  if (!entry || entry->access != Access::kUsers || !refusal_) return std::nullopt;
  const auto reason = refusal_();
  if (!reason) return std::nullopt;
  return HttpReply{.status = HttpStatus::kUnavailable, .body = *reason + "\n", .fields = {"Retry-After: 1"}};
}

bool Router::is_foreign_host(const Entry& entry, const HttpRequest& request) const {
  if (entry.access == Access::kEverybody || request.caller.kind != HttpCaller::Kind::kAnybody) return false;
  return hosts_ != nullptr && !hosts_->accepts(request.host);
}

bool Router::takes_body(std::string_view method, std::string_view path) const {
  const Entry* entry = find(path);
  return method == "POST" && entry && entry->post;
}

bool Router::is_for_everybody(std::string_view path) const {
  const Entry* entry = find(path);
  return entry && entry->access == Access::kEverybody;
}

HttpLogin* Router::login_for(std::string_view path) const {
  const Entry* entry = find(path);
  return entry && entry->access != Access::kEverybody ? login_ : nullptr;
}

}  // namespace locksley::daemon
