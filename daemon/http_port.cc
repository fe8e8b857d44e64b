#include "daemon/http_port.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/lane/lane_view.h"
#include "daemon/http/pages/assets.h"
#include "daemon/http/pages/operator_pages.h"
#include "daemon/metrics/build_info.h"
#include "daemon/metrics/limit_metrics.h"
#include "daemon/metrics/process_metrics.h"
#include "daemon/metrics/server_metrics.h"
#include "daemon/network/network_metrics.h"
#include "daemon/server/state/account_metrics.h"
#include "daemon/server/state/inspection.h"
#include "daemon/store/cluster_metrics.h"
#include "daemon/store/store_metrics.h"
#include "daemon/tls/tls_metrics.h"
#include "daemon/upstream/upstream.h"
#include "daemon/upstream/upstream_metrics.h"
#include "daemon/workers/remote_metrics.h"

namespace locksley::daemon {

namespace {

HttpLogin::Users users_of(Server& server) {
  return [&server](const std::string& name) -> std::optional<HttpUser> {
    kIoThread.assert_held();
    const auto& users = server.config().users;
    const auto user = users.find(name);
    if (user == users.end()) return std::nullopt;
    return HttpUser{.hash = user->second.password_hash, .groups = user->second.commands};
  };
}

auto count_refusals(ServerState& state) {
  return [&state](const std::string& source) {
    kIoThread.assert_held();
    state.stats().authentication_failures.add(1);
    state.warnings().warn(Warning::kWrongPassword, source,
                          "wrong password or token by HTTP, or no such user");
  };
}

// Why pages of batches are not served now; none: they are. As the commands that need batches.
auto refusal_by(const ClusterBoard& cluster) {
  return [&cluster]() -> std::optional<std::string> {
    if (cluster.role() != ClusterBoard::Role::kUnconfirmed) return std::nullopt;
    return std::string(kUnconfirmedError);
  };
}

// Jobs that wait, of each handler whose jobs only remote workers run.
std::map<std::string, std::uint64_t> queued_for_remote_workers(const ServerState& state)
    LOCKSLEY_REQUIRES(kIoThread) {
  std::map<std::string, std::uint64_t> queued;
  std::map<const Lane*, std::vector<GateView>> gates;  // by id
  for (const auto& [name, entry] : state.handlers().entries()) {
    if (entry.kind != HandlerKind::kRemote) continue;
    const auto [lane, is_new] = gates.try_emplace(&entry.lane);
    if (is_new) lane->second = entry.lane.view().gates();
    const auto gate = std::ranges::lower_bound(lane->second, entry.gate, {}, &GateView::gate);
    if (gate != lane->second.end() && gate->gate == entry.gate) queued[name] = gate->queued;
  }
  return queued;
}

std::set<std::string, std::less<>> names_of(const std::vector<const Lane*>& lanes) {
  std::set<std::string, std::less<>> names;
  for (const Lane* const lane : lanes) names.insert(lane->name());
  return names;
}

// Callers that were not asked to log in are as one user, with the connections of the wire that have
// not logged in, or, where there are no users, that user.
HttpTurns turns_of(ServerState& state) LOCKSLEY_REQUIRES(kIoThread) {
  return {.slices = state.slices(), .line_of = [&state](const HttpCaller& caller) {
            kIoThread.assert_held();
            if (caller.kind == HttpCaller::Kind::kToken) return kDaemonsLine;
            UserRef user;
            if (caller.kind == HttpCaller::Kind::kUser) {
              user = state.users().find(caller.user);
            } else if (!state.users().are_configured()) {
              user = state.users().everybody();
            }
            return user == nullptr ? kStrangersLine : line_of_tenant(user->tenant().number);
          }};
}

}  // namespace

HttpPort::HttpPort(const Parts& parts, const config::Config& config, std::optional<Secret> token)
    : health_(parts.pool, parts.lane),
      login_(parts.authenticator, users_of(parts.server), count_refusals(parts.server.state())),
      scheduler_metrics_(
          parts.pool, parts.server.state().stats(),
          [&handlers = parts.handlers, &state = parts.server.state()]() -> SchedulerMetrics::Shown {
            kIoThread.assert_held();
            return {.lanes = lanes_in_use(state), .handlers = handlers.handlers()};
          },
          {.deepest_batches = config.metrics.deepest_batches, .tenants = config.metrics.tenants}),
      router_(&login_, &hosts_),
      api_(parts.server.state(), health_),
      http_(parts.io, router_) {
  login_.set(config.http.login, std::move(token));
  hosts_.set(config.http.hosts);
  Server& server = parts.server;
  http_.take_turns(turns_of(server.state()));
  metrics_.add_long([this] { return scheduler_metrics_.read(); });
  metrics_.add([&server](Families& families) { read_server_metrics(server.state().stats(), families); });
  metrics_.add([&server](Families& families) { read_network_metrics(server.state().network(), families); });
  metrics_.add([&server](Families& families) {
    kIoThread.assert_held();
    read_limit_metrics(server.config(), families);
  });
  // After the scheduler's, so that the same tenants have labels.
  metrics_.add_long([this, &server] {
    kIoThread.assert_held();
    return read_account_metrics(server.state().batches().registry().tenants(),
                                scheduler_metrics_.labelled_tenants());
  });
  metrics_.add([&server](Families& families) {
    Family logs = Family::gauge("locksley_log_bytes", "Standard error of running jobs, in memory.");
    logs.add({}, server.state().log_bytes());
    std::move(logs).move_to(families);
  });
  if (const Store* const store = parts.store) {
    metrics_.add([store](Families& families) { read_store_metrics(*store, families); });
    health_.watch_store([store] { return store->failing_since(); });
  }
  health_.watch_role(refusal_by(parts.cluster));
  router_.refuse_pages_while(refusal_by(parts.cluster));
  metrics_.add([&cluster = parts.cluster](Families& families) { read_cluster_metrics(cluster, families); });
  metrics_.add_long([&server] {
    kIoThread.assert_held();
    const ServerState& state = server.state();
    return read_remote_metrics(state.machines().get(), names_of(lanes_in_use(state)),
                               queued_for_remote_workers(state));
  });
  if (const Upstream* const upstream = parts.upstream) {
    metrics_.add([upstream](Families& families) { read_upstream_metrics(upstream->lanes(), families); });
  }
  metrics_.add([](Families& families) { read_process_metrics(families); });
  metrics_.add([](Families& families) { read_build_info(families); });
  metrics_.add([this, &server, &workers = parts.workers](Families& families) {
    kIoThread.assert_held();
    read_tls_metrics(server.tls(), http_.tls(), workers.tls(), families);
  });
  add_operator_pages(router_, metrics_, turns_of(server.state()), health_);
  add_assets(router_, dashboard_assets());
  api_.add_to(router_);
}

}  // namespace locksley::daemon
