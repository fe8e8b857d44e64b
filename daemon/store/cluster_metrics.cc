#include "daemon/store/cluster_metrics.h"

#include <cstdint>
#include <string>
#include <utility>

#include "daemon/base/time.h"

namespace locksley::daemon {

void read_cluster_metrics(const ClusterBoard& cluster, Families& families) {
  const ClusterBoard::View view = cluster.get();
  Family nodes = Family::gauge("locksley_cluster_nodes", "Daemons on this store, as this one sees them.");
  for (const auto state :
       {ClusterNode::State::kActive, ClusterNode::State::kStandby, ClusterNode::State::kGone}) {
    std::uint64_t count = 0;
    for (const ClusterNode& node : view->nodes) count += node.state == state ? 1 : 0;
    nodes.add({{"state", std::string(to_string(state))}}, count);
  }
  std::move(nodes).move_to(families);
  Family shards =
      Family::gauge("locksley_cluster_shards",
                    "Shards of the store: owned by a daemon that lives, or by none. A shard without an "
                    "owner accepts nothing.");
  shards.add({{"state", "owned"}}, std::uint64_t{ClusterBoard::kShards - view->unowned_shards});
  shards.add({{"state", "unowned"}}, std::uint64_t{view->unowned_shards});
  std::move(shards).move_to(families);
  Family adoptions = Family::counter("locksley_cluster_adoptions_total",
                                     "Times that this daemon has become the active one.");
  adoptions.add({}, cluster.adoptions());
  std::move(adoptions).move_to(families);
  Family fenced = Family::counter("locksley_cluster_fenced_total",
                                  "Daemons that this one has kept from writing, because they were silent.");
  fenced.add({}, cluster.fencings());
  std::move(fenced).move_to(families);
  if (const auto left = cluster.lease_left(now())) {
    Family lease = Family::gauge("locksley_cluster_lease_seconds_left",
                                 "Seconds until another daemon may take over from this active one, if the "
                                 "database confirms no sign of life.");
    lease.add({}, seconds_of(*left));
    std::move(lease).move_to(families);
  }
  if (const auto batches = cluster.followed()) {
    Family followed =
        Family::gauge("locksley_cluster_followed_batches",
                      "Batches of which this daemon, which stands by, has a copy of the rows, so "
                      "that a takeover reads only what has changed.");
    followed.add({}, *batches);
    std::move(followed).move_to(families);
  }
  if (const auto standbys = cluster.synchronous_standbys()) {
    Family synchronous = Family::gauge(
        "locksley_cluster_synchronous_standbys",
        "Standbys of the store's database that commits wait for. Without any, no batch is accepted.");
    synchronous.add({}, *standbys);
    std::move(synchronous).move_to(families);
  }
  if (const auto age = cluster.oldest_transaction()) {
    Family oldest =
        Family::gauge("locksley_cluster_oldest_transaction_seconds",
                      "Age of the oldest transaction in the store's database, of any client. While "
                      "it lasts, the database keeps deleted rows.");
    oldest.add({}, seconds_of(*age));
    std::move(oldest).move_to(families);
  }
}

}  // namespace locksley::daemon
