// HELLO and JOIN: how the link becomes a worker of the upstream.
#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/upstream/link/upstream_link.h"

namespace locksley::daemon {
namespace {

// The upstream has none of the link's handlers for remote workers, or none for this user.
bool is_for_want_of_handlers(std::string_view refusal) {
  return refusal.starts_with("NOHANDLER ") ||
         (refusal.starts_with("NOPERM ") && refusal.contains(" to use the handler "));
}

}  // namespace

void UpstreamLink::on_hello(ReplyCursor reply) {
  if (reply.is_error()) return pipeline_.fail(std::string(reply.text()));
  phase_ = Phase::kJoining;
  send_join();
}

void UpstreamLink::send_join() {
  const std::size_t words = (tells_grace_ ? 9 : 7) + options_.handlers.size();
  proto::CommandWriter writer = pipeline_.begin({.kind = Kind::kJoin}, words);
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
  if (!is_draining_ || joined_.lease == std::chrono::milliseconds{0}) return;
  if (pipeline_.now() - attempts_.refused_for_handlers(pipeline_.now()) < joined_.lease) return;
  stats_.dropped_jobs += results_.jobs();
  stats_.dropped_bytes += results_.bytes();
  stats_.dropped_leases += static_cast<std::uint64_t>(
      std::ranges::count_if(leases_.all(), [](const auto& each) { return !each.second.is_lost; }));
  lifecycle_.lose_all();
}

void UpstreamLink::on_join(ReplyCursor reply) {
  if (reply.is_error()) {
    const std::string_view why = reply.text();
    // An upstream of an earlier version does not know GRACE.
    if (why.starts_with("ERR syntax error") && std::exchange(tells_grace_, false)) return send_join();
    if (is_for_want_of_handlers(why)) on_no_handlers();
    return pipeline_.fail(std::string(why));
  }
  std::optional<JoinReply> joined = read_join_reply(reply);
  if (!joined) return pipeline_.fail("the reply to JOIN is malformed");
  const std::string store_before = std::exchange(joined_, *std::move(joined)).store;
  beats_.joined(joined_.beat);
  ++stats_.connections;
  attempts_.joined(joined_.addresses);
  results_.set_longest_output(joined_.longest_output);
  if (!joined_.store.empty() && !store_before.empty() && joined_.store != store_before) lifecycle_.lose_all();
  phase_ = reclaims_.begin() ? Phase::kServing : Phase::kReclaiming;
}

}  // namespace locksley::daemon
