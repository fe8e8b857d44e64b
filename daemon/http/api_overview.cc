// Who asks, and how the daemon is.
#include <chrono>
#include <map>

#include "daemon/http/api.h"
#include "daemon/http/api_json.h"
#include "daemon/http/build_info.h"
#include "daemon/store/store.h"

namespace locksley::daemon {
namespace {

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string_view word_of(Health::Phase phase) {
  switch (phase) {
    case Health::Phase::starting:
      return "starting";
    case Health::Phase::serving:
      return "serving";
    case Health::Phase::draining:
      break;
  }
  return "draining";
}

std::string_view store_word(const Store* store) {
  if (store == nullptr) return "memory";
  return store->error().empty() ? "ready" : "failing";
}

Json limit(std::uint64_t most) { return most == 0 ? Json() : Json(most); }

Json limits_of(const Server& server, const User& user) {
  const config::Config& config = server.config();
  const Quotas& own = user.tenant().quotas;
  const bool all = user.is_admin();
  return {{"max_queued_jobs", limit(all ? config.limits.max_queued_jobs : own.max_queued_jobs)},
          {"max_queued_bytes", limit(all ? config.limits.max_queued_bytes.count : own.max_queued_bytes)},
          {"max_clients", limit(all ? config.limits.max_clients : own.max_clients)},
          {"store_max_bytes", limit(all ? config.store.max_bytes.count : 0)},
          {"max_batches", limit(all ? 0 : own.max_batches)}};
}

// What the user may see of each lane; and executors at work, all together.
Json lanes_of(const Server& server, const User& user, std::uint64_t& running) {
  std::map<const Lane*, std::uint32_t> slots;
  for (const auto& [name, entry] : server.handlers().entries()) {
    slots[&entry.lane] = concurrency_of(server, entry);
  }
  Json lanes = Json::array();
  for (const Lane* lane : server.lanes()) {
    const RingSnapshot ring = lane->ring().snapshot(0, steady_now());
    std::uint64_t queued = ring.queued;
    std::uint64_t batches = ring.active_queues;
    std::uint64_t executors = ring.executors;
    if (!user.is_admin()) {
      queued = batches = executors = 0;
      for (const TenantView& tenant : ring.tenants) {
        if (tenant.tenant != user.name()) continue;
        queued += tenant.queued;
        batches += tenant.queues;
        executors += tenant.executors;
      }
    }
    running += executors;
    lanes.push_back({{"lane", lane->name()},
                     {"slots", slots[lane]},
                     {"queued", queued},
                     {"running", executors},
                     {"batches", batches}});
  }
  return lanes;
}

Json jobs_of(const Handler& handler) {
  Json jobs = Json::object();
  for (std::size_t status = 0; status < kJobStatuses; ++status) {
    // [handler-stats] relaxed: a number to look at, as exact as the moment of looking.
    jobs[std::string(to_string(static_cast<JobStatus>(status)))] =
        handler.stats.jobs[status].load(std::memory_order_relaxed);
  }
  return jobs;
}

Json handlers_of(const Server& server, const User& user) {
  Json handlers = Json::array();
  for (const auto& [name, entry] : server.handlers().entries()) {
    if (!user.may_use(name)) continue;
    Json handler = Json::object();
    visit_members(server, entry, JsonMembers(handler));
    handler["lane"] = entry.lane.name();
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

}  // namespace

HttpReply Api::session(const HttpRequest& request) const {
  const UserRef user = user_of(request.caller);
  const auto may = [&](proto::CommandGroup group) { return user != nullptr && user->may(group); };
  const bool is_user = request.caller.kind == HttpCaller::Kind::user;
  return json_reply({{"caller", is_user                                          ? "user"
                                : request.caller.kind == HttpCaller::Kind::token ? "token"
                                                                                 : "anybody"},
                     {"user", is_user ? Json(request.caller.user) : Json()},
                     {"may",
                      {{"read", may(proto::CommandGroup::kRead)},
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
  const ServerStats& stats = server_.stats();
  const Tenant& own = user.tenant();
  const bool all = user.is_admin();
  const auto uptime = std::chrono::steady_clock::now() - server_.started_at();
  const std::int64_t now_ms = unix_ms();

  std::uint64_t running = 0;
  Json lanes = lanes_of(server_, user, running);
  Json steals = Json::array();
  for (const Pool::StealPair& pair : server_.pool().steal_pairs()) {
    steals.push_back({{"thief", pair.thief}, {"victim", pair.victim}, {"steals", pair.steals}});
  }
  const TenantViews views =
      *admitted_user == token_ ? tenants_seen_by(server_, user) : tenants_with_own(server_, user);
  Json tenants = Json::array();
  for (const auto& [name, view] : views) {
    Json tenant = Json::object();
    visit_members(view, JsonMembers(tenant));
    tenants.push_back(std::move(tenant));
  }
  const bool has_stored = all && server_.store() != nullptr;
  return json_reply(
      {{"server",
        {{"version", kBuildVersion},
         {"revision", kBuildRevision},
         {"now", now_ms},
         {"started_at", now_ms - std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count()},
         {"state", word_of(health_.phase())},
         {"store", store_word(server_.store())}}},
       {"totals",
        {{"active_batches", all ? stats.active_batches.get() : own.active_batches},
         {"retained_batches", all ? Json(stats.retained_batches.get()) : Json()},
         {"queued_jobs", all ? stats.queued_jobs.get() : own.queued_jobs},
         {"queued_bytes", all ? stats.queued_bytes.get() : own.queued_bytes},
         {"running_jobs", running},
         {"connections", all ? stats.connections.get() : own.connections}}},
       {"limits", limits_of(server_, user)},
       {"stored_bytes", has_stored ? Json(stats.stored_bytes.get()) : Json()},
       {"workers", array_of(server_.pool().snapshot())},
       {"steals", std::move(steals)},
       {"lanes", std::move(lanes)},
       {"tenants", std::move(tenants)},
       {"handlers", handlers_of(server_, user)}});
}

}  // namespace locksley::daemon
