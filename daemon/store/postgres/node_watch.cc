#include "daemon/store/postgres/node_watch.h"

#include <algorithm>
#include <utility>

namespace locksley::daemon {

ClusterView NodeWatch::see(const std::vector<NodeRow>& rows, Instant at) {
  ClusterView view;
  view.seen_at = at;
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
                          .workers = row.workers,
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
