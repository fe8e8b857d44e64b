#include "daemon/workers/state/waiting_claims.h"

#include <iterator>
#include <queue>

namespace locksley::daemon {

namespace {

// The first CLAIM of a user in a group that has not been visited yet.
struct Head {
  const GateSet* gates;
  const WaitingClaims::Group* group;
  WaitingClaims::Group::const_iterator at;

  bool operator<(const Head& other) const { return at->first.second > other.at->first.second; }
};

}  // namespace

void WaitingClaims::add(RemoteWorker& worker, const GateSet& gates) {
  groups_[gates].emplace(std::pair(worker.account.number(), worker.waiting->order), &worker);
}

void WaitingClaims::remove(const RemoteWorker& worker, const GateSet& gates) {
  const auto group = groups_.find(gates);
  if (group == groups_.end()) return;
  group->second.erase({worker.account.number(), worker.waiting->order});
  if (group->second.empty()) groups_.erase(group);
}

void WaitingClaims::visit(const HasJobs& has_jobs, const HasRoom& has_room, const Visit& visit) const {
  std::priority_queue<Head> heads;  // the earliest CLAIM is at the top
  for (const auto& [gates, group] : groups_) {
    if (!has_jobs(gates)) continue;
    for (auto at = group.begin(); at != group.end();) {
      const std::uint64_t account = at->first.first;
      heads.push({&gates, &group, at});
      at = group.upper_bound({account, ~std::uint64_t{0}});
    }
  }
  while (!heads.empty()) {
    const Head head = heads.top();
    heads.pop();
    RemoteWorker& worker = *head.at->second;
    // The user's other CLAIMs of this group need no turn: no room comes back meanwhile, and for new
    // jobs the link is woken.
    if (!has_jobs(*head.gates) || !has_room(worker.account)) continue;
    const auto next = std::next(head.at);
    if (next != head.group->end() && next->first.first == head.at->first.first)
      heads.push({head.gates, head.group, next});
    if (!visit(worker)) return;
  }
}

}  // namespace locksley::daemon
