// HELLO and JOIN: how the link becomes a worker of the upstream.
#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/upstream/link/upstream_link.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kLongestLeaseMs = 24 * 3'600'000;  // the bound of workers.lease, and of LEASE

// The upstream has none of the link's handlers for remote workers, or none for this user.
bool is_for_want_of_handlers(std::string_view refusal) {
  return refusal.starts_with("NOHANDLER ") ||
         (refusal.starts_with("NOPERM ") && refusal.contains(" to use the handler "));
}

}  // namespace

void UpstreamLink::on_hello(ReplyCursor reply) {
  if (reply.is_error()) return fail(std::string(reply.text()));
  phase_ = Phase::kJoining;
  send_join();
}

void UpstreamLink::send_join() {
  const std::size_t words = (tells_grace_ ? 9 : 7) + options_.handlers.size();
  proto::CommandWriter writer = begin_command({.kind = Kind::kJoin}, words);
  writer.argument("JOIN");
  writer.argument(options_.name);
  writer.argument("SLOTS");
  writer.argument(options_.slots);
  if (tells_grace_) {
    writer.argument("GRACE");
    writer.argument(std::min(options_.grace, UpstreamLinkOptions::kMostGrace).count());
  }
  writer.argument("PUSH");
  writer.argument("PARTIAL");
  writer.argument("HANDLERS");
  for (const std::string& handler : options_.handlers) writer.argument(handler);
}

void UpstreamLink::on_no_handlers() {
  if (!is_draining_ || lease_ == std::chrono::milliseconds{0}) return;
  is_without_handlers_ = true;
  if (!without_handlers_since_) without_handlers_since_ = now_;
  if (now_ - *without_handlers_since_ < lease_) return;
  for (const auto& [id, results] : kept_) {
    stats_.dropped_jobs += results.count;
    stats_.dropped_bytes += results.outputs.size();
  }
  stats_.dropped_leases += static_cast<std::uint64_t>(
      std::ranges::count_if(leases_, [](const auto& each) { return !each.second.is_lost; }));
  lose_all();
}

void UpstreamLink::on_join(ReplyCursor reply) {
  if (reply.is_error()) {
    const std::string_view why = reply.text();
    // An upstream of an earlier version does not know GRACE.
    if (why.starts_with("ERR syntax error") && std::exchange(tells_grace_, false)) return send_join();
    if (is_for_want_of_handlers(why)) on_no_handlers();
    return fail(std::string(why));
  }
  std::uint64_t beat_ms = 0, lease_ms = 0, longest_output = 0;
  std::string store;
  std::vector<std::string> others;
  std::uint64_t values = reply.array();
  for (; values >= 2 && !reply.is_bad(); values -= 2) {
    const std::string_view key = reply.text();
    if (key == "beat_ms") {
      beat_ms = reply.count();
    } else if (key == "lease_ms") {
      lease_ms = reply.count();
    } else if (key == "longest_output") {
      longest_output = reply.count();
    } else if (key == "store") {
      store = reply.text();
    } else if (key == "addresses") {
      for (std::uint64_t left = reply.array(); left != 0 && !reply.is_bad(); --left)
        others.emplace_back(reply.text());
    } else if (key == "not_served") {
      for (std::uint64_t left = reply.array(); left != 0 && !reply.is_bad(); --left)
        not_served_.emplace_back(reply.text());
    } else {
      reply.skip();
    }
  }
  if (reply.is_bad() || beat_ms == 0 || std::max(beat_ms, lease_ms) > kLongestLeaseMs)
    return fail("the reply of JOIN is not one");
  lease_ = std::chrono::milliseconds(lease_ms);
  longest_output_ = longest_output;
  beat_every_ = std::chrono::milliseconds(beat_ms);
  beat_at_ = now_ + beat_interval();
  ++stats_.connections;
  backoff_.reset();
  route_.serving();
  route_.name_others(others);
  if (!store.empty() && !store_.empty() && store != store_) lose_all();
  store_ = std::move(store);
  begin_reclaims();
}

}  // namespace locksley::daemon
