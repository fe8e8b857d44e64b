// The caller's session, and an overview of the daemon.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/lane/lane_view.h"
#include "daemon/base/time.h"
#include "daemon/http/api/api.h"
#include "daemon/http/api/api_json.h"
#include "daemon/http/in_parts.h"
#include "daemon/metrics/build_info.h"
#include "daemon/store/store.h"

namespace locksley::daemon {
namespace {

std::string_view word_of(Health::Phase phase) {
  switch (phase) {
    case Health::Phase::kStarting:
      return "starting";
    case Health::Phase::kServing:
      return "serving";
    case Health::Phase::kDraining:
      break;
  }
  return "draining";
}

std::string_view store_word(const Store* store) {
  if (store == nullptr) return "memory";
  return store->error().empty() ? "ready" : "failing";
}

Json limit(std::uint64_t most) { return most == Account::kNoLimit ? Json() : Json(most); }

Json limits_of(const User& user) {
  const Account& own = user.tenant().account;
  const Account& account = user.is_admin() ? *own.parent() : own;
  return {{"max_queued_jobs", limit(account.limit(Resource::kQueuedJobs))},
          {"max_queued_bytes", limit(account.limit(Resource::kQueuedBytes))},
          {"max_payload_bytes", limit(account.limit(Resource::kPayloadBytes))},
          {"max_clients", limit(account.limit(Resource::kConnections))},
          {"store_max_bytes", limit(account.limit(Resource::kStoredBytes))},
          {"max_batches", limit(account.limit(Resource::kBatches))}};
}

// What an account holds, and may hold. `user`: null for the account of all.
Json account_json(const Json& user, const Account& account) {
  Json json = {{"user", user}};
  for (const ResourceName& each : kResourceNames) {
    json[std::string(each.name)] = {{"used", account.used(each.resource)},
                                    {"limit", limit(account.limit(each.resource))}};
  }
  json["failure_bytes"] = {{"used", account.failures().bytes()},
                           {"limit", limit(account.failures().limit())}};
  json["result_bytes"] = {{"used", account.results().bytes()}, {"limit", limit(account.results().limit())}};
  return json;
}

// Those that the user may see: its own, or with admin that of all and each user's, at most
// kMostAccounts.
Json accounts_of(ServerState& state, const User& user) {
  kIoThread.assert_held();
  constexpr std::size_t kMostAccounts = 100;  // guess: more than a page shows
  const Account& own = user.tenant().account;
  if (!user.is_admin()) return Json::array({account_json(user.name(), own)});
  Json accounts = Json::array({account_json(Json(), *own.parent())});
  for (const Tenant& tenant : state.batches().registry().tenants().all()) {
    if (accounts.size() > kMostAccounts) break;
    accounts.push_back(account_json(tenant.name, tenant.account));
  }
  return accounts;
}

// The part of each lane that the user may see; and the number of executors at work in all lanes.
Json lanes_of(const ServerState& state, const User& user, std::uint64_t& running)
    LOCKSLEY_REQUIRES(kIoThread) {
  Json lanes = Json::array();
  const MachinesBoard::View machines = state.machines().get();
  for (const Lane* lane : lanes_in_use(state)) {
    const LaneSeen seen = lane_seen_by(*lane, user);
    running += seen.running;
    const auto remote = machines->lanes.find(lane->name());
    lanes.push_back({{"lane", lane->name()},
                     {"slots", slots_of(state, *lane)},
                     {"remote_slots", remote == machines->lanes.end() ? 0 : remote->second.slots},
                     {"queued", seen.queued},
                     {"running", seen.running},
                     {"batches", seen.batches}});
  }
  return lanes;
}

Json jobs_of(const Handler& handler) {
  Json jobs = Json::object();
  for (std::size_t status = 0; status < kJobStatuses; ++status) {
    // [handler-stats] relaxed: for display only; nothing follows from a stale value.
    jobs[std::string(to_string(static_cast<JobStatus>(status)))] =
        handler.stats.jobs[status].load(std::memory_order_relaxed);
  }
  return jobs;
}

Json handlers_of(const ServerState& state, const User& user) LOCKSLEY_REQUIRES(kIoThread) {
  Json handlers = Json::array();
  for (const auto& [name, entry] : state.handlers().entries()) {
    if (!user.may_use(name)) continue;
    Json handler = Json::object();
    visit_members(state, entry, JsonMembers(handler));
    handler["jobs"] = user.is_admin() ? jobs_of(entry.handler) : Json();
    handlers.push_back(std::move(handler));
  }
  return handlers;
}

template <class Views>
Json array_of(const Views& views) {
  Json array = Json::array();
  for (const auto& view : views) {
    Json object = Json::object();
    visit_members(view, JsonMembers(object));
    array.push_back(std::move(object));
  }
  return array;
}

Json machine_json(const MachineView& view) {
  Json machine = Json::object();
  visit_members(view, JsonMembers(machine));
  machine["handlers"] = view.handlers;
  machine["id"] = view.id;
  return machine;
}

// The overview's machines and tenants, of which there may be very many: written a few at a time.
class OverviewParts {
 public:
  // `reply` has empty arrays in their places.
  OverviewParts(MachinesBoard::View machines, TenantPages tenants, HttpReply reply)
      : machines_(std::move(machines)), pages_(std::move(tenants)), reply_(std::move(reply)) {
    after_tenants_ = cut_at("\"tenants\":[]");
    after_machines_ = cut_at("\"machines\":[]");
  }

  // Goes on until about `until`. True: reply() is whole.
  bool go_on(Instant until) LOCKSLEY_REQUIRES(kIoThread) {
    constexpr std::size_t kBetweenLooks = 8;  // at the clock: some 50 us
    const auto is_late = [&](std::size_t count) { return count % kBetweenLooks == 0 && now() >= until; };
    for (; next_ < machines_->machines.size(); ++next_) {
      if (next_ != 0 && is_late(next_)) return false;
      append(machine_json(machines_->machines[next_]), next_ == 0);
    }
    reply_.body += std::exchange(after_machines_, {});
    while (!tenants_) {
      if (pages_.read_some()) {
        tenants_ = pages_.take();
      } else if (now() >= until) {
        return false;
      }
    }
    for (; !tenants_->empty(); tenants_->erase(tenants_->begin()), ++written_) {
      if (is_late(written_ + 1)) return false;
      Json tenant = Json::object();
      visit_members(tenants_->begin()->second, JsonMembers(tenant));
      append(tenant, written_ == 0);
    }
    reply_.body += after_tenants_;
    return true;
  }
  HttpReply reply() { return std::move(reply_); }
  // About how many bytes the view of the machines takes, together with the text that is written of
  // it.
  std::uint64_t machine_bytes() const { return 512 * machines_->machines.size(); }
  MachinesBoard::View take_machines() { return std::move(machines_); }

 private:
  // Cuts the body within this empty array, and returns the rest.
  std::string cut_at(std::string_view array) {
    // No string has this: its quotes would be escaped.
    const std::size_t place = reply_.body.find(array);
    check(place != std::string::npos, "an overview without a place for its parts");
    const std::size_t end = place + array.size() - 1;
    std::string rest = reply_.body.substr(end);
    reply_.body.resize(end);
    return rest;
  }
  void append(const Json& json, bool is_first) {
    if (!is_first) reply_.body += ',';
    reply_.body += json_text(json);
  }

  MachinesBoard::View machines_;
  TenantPages pages_;
  HttpReply reply_;
  std::string after_machines_;  // what follows them in the body
  std::string after_tenants_;
  std::size_t next_ = 0;                // machine
  std::optional<TenantViews> tenants_;  // once all were read; those that are not written
  std::size_t written_ = 0;             // tenants
};

Json nodes_of(const ServerState& state) {
  if (state.cluster() == nullptr) return Json::array();
  const ClusterBoard::View view = state.cluster()->get();
  return array_of(view->nodes);
}

// `is_admin`: where the store is, is for operators.
Json server_of(const ServerState& state, Health::Phase phase, bool is_admin) LOCKSLEY_REQUIRES(kIoThread) {
  const auto uptime = std::chrono::duration_cast<std::chrono::milliseconds>(now() - state.started_at());
  const std::int64_t now_ms = unix_milliseconds();
  const Store* const store = state.store();
  return {{"version", kBuildVersion},
          {"revision", kBuildRevision},
          {"now", now_ms},
          {"started_at", now_ms - uptime.count()},
          {"state", word_of(phase)},
          {"store", store_word(store)},
          {"store_at", is_admin && store != nullptr ? Json(store->place()) : Json()},
          {"tls", !state.config().listen.tls.certificate.empty()}};
}

// Of all, with admin; else of the user.
Json totals_of(const ServerState& state, const User& user, std::uint64_t running)
    LOCKSLEY_REQUIRES(kIoThread) {
  const bool all = user.is_admin();
  const ServerStats& stats = state.stats();
  const Account& own = user.tenant().account;
  return {{"active_batches", all ? stats.active_batches.get() : own.used(Resource::kBatches)},
          {"retained_batches", all ? Json(stats.retained_batches.get()) : Json()},
          {"queued_jobs", all ? stats.queued_jobs.get() : own.used(Resource::kQueuedJobs)},
          {"queued_bytes", all ? stats.queued_bytes.get() : own.used(Resource::kQueuedBytes)},
          {"payload_bytes", (all ? *own.parent() : own).used(Resource::kPayloadBytes)},
          {"running_jobs", running},
          {"connections", all ? stats.connections.get() : own.used(Resource::kConnections)}};
}

Json steals_of(const Pool& pool) {
  Json steals = Json::array();
  for (const Pool::StealPair& pair : pool.steal_pairs()) {
    steals.push_back({{"thief", pair.thief}, {"victim", pair.victim}, {"steals", pair.steals}});
  }
  return steals;
}

}  // namespace

HttpReply Api::session(const HttpRequest& request) const {
  const UserRef user = user_of(request.caller);
  const auto may = [&](proto::CommandGroup group) { return user != nullptr && user->may(group); };
  const bool is_user = request.caller.kind == HttpCaller::Kind::kUser;
  return json_reply({{"caller", is_user                                           ? "user"
                                : request.caller.kind == HttpCaller::Kind::kToken ? "token"
                                                                                  : "anybody"},
                     {"user", is_user ? Json(request.caller.user) : Json()},
                     {"may",
                      {{"submit", may(proto::CommandGroup::kSubmit)},
                       {"read", may(proto::CommandGroup::kRead)},
                       {"control", may(proto::CommandGroup::kControl)},
                       {"admin", may(proto::CommandGroup::kAdmin)}}},
                     {"version", kBuildVersion},
                     {"revision", kBuildRevision}});
}

HttpReply Api::overview(const HttpRequest& request) const {
  const auto admitted_user = admitted(request, proto::CommandGroup::kRead, "tenants");
  if (!admitted_user) return json_error(admitted_user.error());
  if (const auto query = Query::parse(request.query, {}); !query) return json_error("ERR " + query.error());
  const User& user = **admitted_user;
  const bool has_stored = user.is_admin() && state_.store() != nullptr;
  std::uint64_t running = 0;
  Json lanes = lanes_of(state_, user, running);
  const OwnTenant own = *admitted_user == token_ ? OwnTenant::kIfKnown : OwnTenant::kAlways;
  HttpReply reply =
      json_reply({{"server", server_of(state_, health_.phase(), user.is_admin())},
                  {"totals", totals_of(state_, user, running)},
                  {"limits", limits_of(user)},
                  {"accounts", accounts_of(state_, user)},
                  {"stored_bytes", has_stored ? Json(state_.stats().stored_bytes.get()) : Json()},
                  {"workers", array_of(state_.pool().snapshot())},
                  {"machines", Json::array()},
                  {"nodes", nodes_of(state_)},
                  {"steals", steals_of(state_.pool())},
                  {"lanes", std::move(lanes)},
                  {"tenants", Json::array()},
                  {"handlers", handlers_of(state_, user)}});
  auto parts = std::make_shared<OverviewParts>(state_.machines().get(),
                                               TenantPages(state_, *admitted_user, own), std::move(reply));
  const auto go_on = [this, parts = std::move(parts)](Instant until) -> std::optional<HttpReply> {
    kIoThread.assert_held();
    if (!parts->go_on(until)) return std::nullopt;
    // The thread of the remote workers may have left it to this one.
    const std::uint64_t bytes = parts->machine_bytes();
    state_.batches().free_dropped(std::const_pointer_cast<MachinesView>(parts->take_machines()), bytes);
    return parts->reply();
  };
  return reply_in_parts(state_.slices(), line_of_tenant(user.tenant().number), go_on);
}

}  // namespace locksley::daemon
