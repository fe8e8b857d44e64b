#include "daemon/store/cluster_board.h"

#include <algorithm>

namespace locksley::daemon {

std::chrono::milliseconds ClusterNode::beat_age(Instant at) const {
  if (!beaten_at || *beaten_at > at) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(at - *beaten_at);
}

std::string_view to_string(ClusterNode::State state) {
  switch (state) {
    case ClusterNode::State::kActive:
      return "active";
    case ClusterNode::State::kStandby:
      return "standby";
    case ClusterNode::State::kGone:
      break;
  }
  return "gone";
}

const ClusterNode* ClusterView::active() const {
  const auto found = std::ranges::find(nodes, ClusterNode::State::kActive, &ClusterNode::state);
  return found == nodes.end() ? nullptr : &*found;
}

ClusterNode ClusterBoard::alone(std::string name, std::string wire, std::string workers) {
  return {.number = 0,
          .name = std::move(name),
          .state = ClusterNode::State::kActive,
          .wire = std::move(wire),
          .workers = std::move(workers),
          .shards = kShards};
}

void ClusterBoard::set(ClusterView view) {
  View next = std::make_shared<const ClusterView>(std::move(view));
  const MutexLock lock(mutex_);
  view_.swap(next);
}

void ClusterBoard::set_trouble(std::string why) {
  ClusterView view = *get();
  view.trouble = std::move(why);
  set(std::move(view));
}

void ClusterBoard::beaten(Instant sent) {
  const Instant::rep at = sent.time_since_epoch().count();
  Instant::rep last = beaten_at_.load();
  while (last < at && !beaten_at_.compare_exchange_weak(last, at)) {
  }
}

bool ClusterBoard::is_unconfirmed(Instant at) const {
  const Instant uncontested_at(Instant::duration(uncontested_at_.load()));
  return lease().count() != 0 && at - beaten_at() >= lease() && at - uncontested_at >= kUncontestedFor;
}

std::optional<std::chrono::milliseconds> ClusterBoard::lease_left(Instant at) const {
  const std::chrono::milliseconds lease = this->lease();
  if (lease.count() == 0) return std::nullopt;
  const auto past = std::chrono::duration_cast<std::chrono::milliseconds>(at - beaten_at());
  return std::clamp(lease - past, std::chrono::milliseconds(0), lease);
}

std::optional<std::uint64_t> ClusterBoard::followed() const {
  const std::int64_t batches = followed_.load();
  if (batches < 0) return std::nullopt;
  return static_cast<std::uint64_t>(batches);
}

std::optional<std::uint64_t> ClusterBoard::synchronous_standbys() const {
  const std::int64_t count = synchronous_standbys_.load();
  if (count < 0) return std::nullopt;
  return static_cast<std::uint64_t>(count);
}

std::optional<std::chrono::milliseconds> ClusterBoard::oldest_transaction() const {
  const std::chrono::milliseconds age(oldest_transaction_ms_.load());
  return age.count() < 0 ? std::nullopt : std::optional(age);
}

namespace {

constexpr auto kNoneIsActive = "no daemon is active: retry later";

}  // namespace

std::string where_the_active_daemon_is(const ClusterView& view) {
  const ClusterNode* const active = view.active();
  return active == nullptr ? kNoneIsActive : "the active daemon is " + active->wire;
}

std::string where_workers_connect(const ClusterView& view) {
  const ClusterNode* const active = view.active();
  if (active == nullptr) return kNoneIsActive;
  if (active->workers.empty()) return "the active daemon has no port for workers";
  return "the active daemon is " + active->workers;
}

}  // namespace locksley::daemon
