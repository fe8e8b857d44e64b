#include "daemon/server/state/server_state.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "config/auto_limits.h"
#include "core/lane/lane_groups.h"
#include "core/lane/lane_view.h"
#include "daemon/auth/authenticator.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/records/refusals.h"

namespace locksley::daemon {

ServerState::ServerState(Parts parts, config::Config config)
    : parts_(std::move(parts)),
      lanes_(parts_.lanes),
      config_(std::move(config)),
      stats_(parts_.handlers.names()),
      slices_(parts_.io.get_executor()),
      turns_(parts_.io.get_executor(), stats_.stretches.polls),
      batches_({.io = parts_.io,
                .slices = slices_,
                .config = config_,
                .handlers = parts_.handlers,
                .tenants = parts_.tenants,
                .stats = stats_,
                .store = parts_.store,
                .log = parts_.log}),
      users_(batches_.registry().tenants()),
      handshakes_(parts_.io.get_executor()),
      warnings_(parts_.log),
      audit_(*parts_.log),
      log_budget_(std::make_shared<LogBudget>(config_.limits.max_log_bytes.count)) {
  audit_.set_on(config_.log.audit == config::AuditLines::kYes);
  users_.replace(config_.users);
  set_limits_of_all(batches_.registry().tenants(), config_);
  update_password_hashes();
  batches_.registry().customers().set_defaults(config_);
  for (Lane* lane : lanes_) set_up(*lane);
  batches_.on_result_room([this] {
    kIoThread.assert_held();
    for (Lane* lane : lanes_) lane->groups().reopen_tenants();
  });
}

ServerState::~ServerState() {
  for (Lane* lane : lanes_) lane->running().on_log({});
}

config::Config ServerState::reconfigure(config::Config config, config::ChangedParts parts) {
  std::swap(config_, config);
  audit_.set_on(config_.log.audit == config::AuditLines::kYes);
  log_budget_->set_limit(config_.limits.max_log_bytes.count);
  if (parts.users || !config::has_same_limits_of_all(config_, config)) {
    const auto changed = users_.replace(config_.users);
    update_password_hashes();
    for (Lane* lane : lanes_) {
      for (const auto& [tenant, limits] : changed) lane->groups().set_tenant_limits(tenant, limits);
    }
    set_limits_of_all(batches_.registry().tenants(), config_);
  }
  if (parts.users || parts.customers) {
    tell_lanes(batches_.registry().customers().set_defaults(config_));
  }
  return config;
}

void ServerState::tell_lanes(std::vector<const Tenant*> users) {
  constexpr std::size_t kAtOnce = 64;  // some 20 us
  struct Place {
    std::size_t user = 0;
    std::size_t lane = 0;
    std::optional<std::string> after = {};
  };
  auto tell = [this, users = std::move(users), at = Place{}](Instant until) mutable {
    kIoThread.assert_held();
    const auto limits = batches_.registry().customers().limits();
    while (at.user < users.size()) {
      const std::string& user = users[at.user]->name;
      Lane& lane = *lanes_[at.lane];
      const auto known = lane.view().customers(user, at.after ? &*at.after : nullptr, kAtOnce);
      for (const CustomerView& each : known)
        lane.groups().set_customer_limits(user, each.customer, limits->of(user, each.customer));
      if (known.size() == kAtOnce) {
        at.after = known.back().customer;
      } else {
        at = {.user = at.lane + 1 == lanes_.size() ? at.user + 1 : at.user,
              .lane = (at.lane + 1) % lanes_.size()};
      }
      if (now() >= until) break;
    }
    return at.user == users.size();
  };
  if (!tell(now() + Slices::kSlice)) slices_.add(std::move(tell));
}

void ServerState::tell_lanes(const Tenant& user, std::string_view customer) {
  const GroupLimits limits = batches_.registry().customers().limits()->of(user.name, customer);
  for (Lane* lane : lanes_) lane->groups().set_customer_limits(user.name, customer, limits);
}

void ServerState::add_lane(Lane& lane) {
  if (std::ranges::find(lanes_, &lane) != lanes_.end()) return;
  set_up(lane);
  lanes_.push_back(&lane);
}

void ServerState::show_logs(Lane& lane) {
  lane.running().set_budget(log_budget_);
  lane.running().on_log([&mailbox = IoMailbox::of(parts_.io), &slices = slices_](Batch& batch) {
    mailbox.post([&slices, record = std::static_pointer_cast<BatchRecord>(batch.shared_from_this())] {
      kIoThread.assert_held();
      record->wake_log_readers(slices);
    });
  });
}

void ServerState::update_password_hashes() {
  std::vector<std::string> hashes;
  for (const auto& [name, user] : config_.users) {
    if (!user.password_hash.empty()) hashes.push_back(user.password_hash);
  }
  parts_.authenticator.set_hashes(std::move(hashes));
}

void ServerState::set_up(Lane& lane) {
  show_logs(lane);
  for (const auto& [tenant, limits] : users_.limits()) lane.groups().set_tenant_limits(tenant, limits);
  lane.groups().on_customer(
      [limits = batches_.registry().customers().limits()](std::string_view user, std::string_view customer) {
        return limits->of(user, customer);
      });
  lane.on_long_cancel(
      [&changes = batches_.changes()](const std::shared_ptr<Batch>& batch, Lane::Cancelled rest) {
        changes.drop_rest(std::static_pointer_cast<BatchRecord>(batch), std::move(rest));
      });
}

proto::Limits ServerState::reader_limits() const {
  proto::Limits limits;
  limits.max_command_bytes = config_.limits.max_command.count;
  // A payload over limits.max_payload is still read, up to what Redis reads, so that the refusal
  // can name the limit.
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
