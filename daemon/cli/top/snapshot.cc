#include "daemon/cli/top/snapshot.h"

#include <algorithm>

#include "daemon/cli/text/info_fields.h"
#include "proto/number.h"

namespace locksley::cli {
namespace {

// The number of the member `name` of a list such as `name=3,other=4`; 0: there is none.
std::uint64_t member_of(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view one = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos && one.substr(0, equals) == name)
      return proto::parse_uint64(one.substr(equals + 1)).value_or(0);
  }
  return 0;
}

}  // namespace

bool TopServer::may(std::string_view group) const {
  if (groups.empty()) return true;
  std::string_view rest = groups;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (rest.substr(0, end) == group) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

TopServer to_top_server(std::string_view info) {
  TopServer server;
  for (const auto& [key, value] : info_fields(info)) {
    const auto number = proto::parse_uint64(value);
    const auto take = [&](std::string_view name, std::uint64_t& into) {
      if (key == name && number) into = *number;
    };
    const auto take_optional = [&](std::string_view name, std::optional<std::uint64_t>& into) {
      if (key == name) into = number;
    };
    if (key == "locksley_version") server.version = value;
    if (key == "user") server.user = value;
    if (key == "groups") server.groups = value;
    if (key == "store") server.store = value;
    if (key == "draining") server.is_draining = value != "0";
    take("process_id", server.process_id);
    take("uptime_in_seconds", server.uptime_s);
    take("connected_clients", server.clients);
    take("maxclients", server.max_clients);
    take("active_batches", server.active_batches);
    take("queued_jobs", server.queued_jobs);
    take("max_queued_jobs", server.max_queued_jobs);
    take("queued_bytes", server.queued_bytes);
    take("max_queued_bytes", server.max_queued_bytes);
    take_optional("retained_batches", server.retained_batches);
    take_optional("ended_jobs", server.ended_jobs);
    take_optional("store_bytes", server.store_bytes);
    take_optional("store_errors", server.store_errors);
  }
  return server;
}

std::vector<TopLane> to_top_lanes(std::string_view info) {
  constexpr std::string_view kPrefix = "lane_";
  std::vector<TopLane> lanes;
  for (const auto& [key, value] : info_fields(info)) {
    if (!key.starts_with(kPrefix)) continue;
    lanes.push_back({.name = key.substr(kPrefix.size()),
                     .slots = member_of(value, "slots"),
                     .running = member_of(value, "running"),
                     .queued = member_of(value, "queued"),
                     .batches = member_of(value, "batches")});
  }
  return lanes;
}

std::string key_of(const client::BatchStatus& status) { return status.tenant + "/" + status.id; }

}  // namespace locksley::cli
