#include "daemon/store/postgres/node_rows.h"

#include <algorithm>
#include <utility>

namespace locksley::daemon {

PgExpected<std::vector<NodeRow>> read_nodes(Connection& connection, Instant deadline) {
  const auto read = connection.run(
      "select node, coalesce(name, ''), coalesce(wire, ''), alive, committed, beat, (select count(*) from "
      "locksley_shard where owner = node) from locksley_node order by node",
      Parameters{}, deadline);
  if (!read) return std::unexpected(read.error());
  const PGresult& table = **read;
  std::vector<NodeRow> rows(static_cast<std::size_t>(PQntuples(&table)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int row = static_cast<int>(i);
    rows[i] = {.node = int4_of(table, row, 0),
               .name = std::string(bytes_of(table, row, 1)),
               .wire = std::string(bytes_of(table, row, 2)),
               .is_alive = bytes_of(table, row, 3).front() != 0,
               .committed = int8_of(table, row, 4),
               .beat = int8_of(table, row, 5),
               .shards = static_cast<std::uint32_t>(int8_of(table, row, 6))};
  }
  return rows;
}

ClusterView NodeWatch::see(const std::vector<NodeRow>& rows, Instant at) {
  ClusterView view;
  std::map<std::int32_t, Seen> seen;
  std::vector<NodeRow> gone;
  std::uint32_t owned = 0;
  for (const NodeRow& row : rows) {
    const auto before = seen_.find(row.node);
    Seen now_seen{.beat = row.beat, .beaten_at = at, .gone_at = std::nullopt};
    if (before != seen_.end() && before->second.beat == row.beat) {
      now_seen.beaten_at = before->second.beaten_at;
    }
    const bool is_standby = row.stands_by() && at - now_seen.beaten_at < lease_;
    const auto state = row.is_alive ? ClusterNode::State::kActive
                       : is_standby ? ClusterNode::State::kStandby
                                    : ClusterNode::State::kGone;
    if (state == ClusterNode::State::kGone) {
      gone.push_back(row);
      now_seen.gone_at = before == seen_.end() ? at : before->second.gone_at.value_or(at);
    }
    if (row.is_alive) owned += row.shards;
    view.nodes.push_back({.number = row.node,
                          .name = row.name,
                          .state = state,
                          .wire = row.wire,
                          .shards = row.shards,
                          .beaten_at = now_seen.beaten_at});
    seen.emplace(row.node, now_seen);
  }
  seen_ = std::move(seen);
  view.unowned_shards = ClusterBoard::kShards - std::min(owned, ClusterBoard::kShards);
  outdated_.clear();
  for (std::size_t i = 0; i < gone.size(); ++i) {
    const bool are_too_many = gone.size() - i > kMostGone;
    if (are_too_many || at - *seen_.at(gone[i].node).gone_at >= kGoneKept)
      outdated_.push_back(std::move(gone[i]));
  }
  return view;
}

}  // namespace locksley::daemon
