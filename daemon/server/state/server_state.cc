#include "daemon/server/state/server_state.h"

#include <algorithm>

#include "daemon/auth/authenticator.h"
#include "daemon/server/records/refusals.h"

namespace locksley::daemon {

ServerState::ServerState(Parts parts, config::Config config)
    : parts_(std::move(parts)),
      lanes_(parts_.lanes),
      config_(std::move(config)),
      stats_(parts_.handlers.names()),
      slices_(parts_.io.get_executor()),
      turns_(parts_.io.get_executor(), stats_.stretches.polls),
      batches_(parts_.io, slices_, config_, parts_.handlers, stats_, parts_.store, parts_.log),
      users_(batches_.registry().tenants()),
      handshakes_(parts_.io.get_executor()),
      warnings_(parts_.log),
      audit_(parts_.log) {
  audit_.turn(config_.log.audit == config::AuditLines::kYes);
  users_.replace(config_.users);
  set_limits_of_all(batches_.registry().tenants(), config_);
  update_password_hashes();
  for (Lane* lane : lanes_) set_tenant_weights(*lane);
  batches_.on_result_room([this] {
    for (Lane* lane : lanes_) lane->reopen_tenants();
  });
}

ServerState::~ServerState() = default;

void ServerState::reconfigure(config::Config config) {
  config_ = std::move(config);
  audit_.turn(config_.log.audit == config::AuditLines::kYes);
  const auto changed = users_.replace(config_.users);
  set_limits_of_all(batches_.registry().tenants(), config_);
  update_password_hashes();
  for (Lane* lane : lanes_) {
    for (const auto& [tenant, weight] : changed) lane->set_tenant_weight(tenant, weight);
  }
}

void ServerState::add_lane(Lane& lane) {
  if (std::ranges::find(lanes_, &lane) != lanes_.end()) return;
  set_tenant_weights(lane);
  lanes_.push_back(&lane);
}

void ServerState::update_password_hashes() {
  std::vector<std::string> hashes;
  for (const auto& [name, user] : config_.users) {
    if (!user.password_hash.empty()) hashes.push_back(user.password_hash);
  }
  parts_.authenticator.set_hashes(std::move(hashes));
}

void ServerState::set_tenant_weights(Lane& lane) const {
  for (const auto& [tenant, weight] : users_.weights()) lane.set_tenant_weight(tenant, weight);
}

proto::Limits ServerState::reader_limits() const {
  proto::Limits limits;
  limits.max_command_bytes = config_.limits.max_command.count;
  // A payload over limits.max_payload is still read, up to what Redis reads, so that the refusal can name the
  // limit.
  limits.max_bulk_bytes = std::max<std::size_t>(limits.max_bulk_bytes, config_.limits.max_payload.count);
  return limits;
}

void ServerState::when_stored(Ticket ticket, Stored done) {
  if (batches_.is_settled(ticket)) return done({});
  held_replies_.hold(ticket, [done = std::move(done)](const std::string& error) {
    done(error.empty() ? std::string() : not_stored(error));
  });
}

std::uint64_t ServerState::batches_accepted() const {
  std::uint64_t sum = 0;
  for (const auto& [handler, counters] : stats_.batches) {
    sum += counters[static_cast<std::size_t>(BatchEvent::kAccepted)].get();
  }
  return sum;
}

}  // namespace locksley::daemon
