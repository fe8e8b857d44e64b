#include "daemon/standby/peers.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "daemon/base/time.h"
#include "proto/clients/cpp/link.h"
#include "proto/clients/cpp/url.h"
#include "proto/reply_reader.h"

namespace locksley::daemon {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(250);
constexpr auto kPatience = std::chrono::seconds(1);  // for one reply, the connection included
constexpr int kShareOfLease = 5;
constexpr int kSharesLeft = 2;  // of them, when it begins to ask: two rounds fit into them
// If a check begins so much later than planned, the process was paused.
constexpr auto kLate = std::chrono::seconds(1);
// After a pause, the engine's thread (ServerUpkeep) checks the other daemons within this time: it
// does so every 0.8 s, and connects again first.
constexpr auto kTimeToFindOut = std::chrono::seconds(2);
constexpr int kRoundsAlone = 3;  // guess: a daemon that takes over changes its server meanwhile
constexpr std::string_view kQuestion = "*1\r\n$6\r\nACTIVE\r\n";

std::vector<ClusterNode> peers_in(const ClusterView& view) {
  std::vector<ClusterNode> peers;
  std::ranges::copy_if(view.nodes, std::back_inserter(peers),
                       [](const ClusterNode& node) { return node.state == ClusterNode::State::kStandby; });
  return peers;
}

// A daemon of another version, or one that has too many clients, replies with an error: it lives,
// and knows nothing.
PeerReply reply_of(const proto::Reply& reply) {
  if (!reply.is_aggregate() || reply.elements.size() != 2) return {.active = 0, .age = PeerReply::kNever};
  return {.active = static_cast<std::int32_t>(reply.elements[0].to_integer().value_or(0)),
          .age = std::chrono::milliseconds(reply.elements[1].to_integer().value_or(0))};
}

}  // namespace

PeerVerdict judge(std::int32_t self, std::chrono::milliseconds unconfirmed,
                  std::span<const std::optional<PeerReply>> replies) {
  bool has_reply = false;
  for (const auto& reply : replies) {
    if (!reply) continue;
    has_reply = true;
    if (reply->active != self && reply->age < unconfirmed) return PeerVerdict::kTakenOver;
  }
  return has_reply ? PeerVerdict::kGoOn : PeerVerdict::kAlone;
}

PeerCheck::PeerCheck(std::shared_ptr<ClusterBoard> cluster, Options options,
                     std::function<void(std::string_view why)> on_lost)
    : cluster_(std::move(cluster)),
      options_(std::move(options)),
      on_lost_(std::move(on_lost)),
      thread_([this] { run(); }) {}

PeerCheck::~PeerCheck() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void PeerCheck::run() {
  const MutexLock lock(mutex_);
  while (!is_ending_) {
    ended_.wait_until(mutex_, now() + kPeriod);
    if (is_ending_) return;
    mutex_.unlock();
    const auto why = check();
    if (why) on_lost_(*why);
    mutex_.lock();
    if (why) return;
  }
}

std::optional<std::string_view> PeerCheck::check() {
  const Instant asked = now();
  if (asked - std::exchange(checked_at_, asked) > kPatience + kPeriod + kLate) paused_until_ = asked;
  const Instant beaten_at = cluster_->beaten_at();
  const auto left = cluster_->lease_left(asked);
  if (!left || *left > cluster_->lease() / kShareOfLease * kSharesLeft) return std::nullopt;
  const ClusterBoard::View view = cluster_->get();
  const ClusterNode* const self = view->active();
  const std::vector<ClusterNode> peers = peers_in(*view);
  if (self == nullptr || peers.empty()) {
    // One that was paused may have others now: the engine's threads are about to find out.
    if (asked - paused_until_ > kTimeToFindOut) cluster_->found_uncontested(asked);
    return std::nullopt;
  }

  std::vector<std::optional<PeerReply>> replies(peers.size());
  {
    std::vector<std::jthread> questions;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      questions.emplace_back([this, &replies, &peers, i] { replies[i] = ask(peers[i]); });
    }
  }
  if (cluster_->beaten_at() != beaten_at) return std::nullopt;
  const auto unconfirmed = std::chrono::duration_cast<std::chrono::milliseconds>(now() - beaten_at);
  const PeerVerdict verdict = judge(self->number, unconfirmed, replies);
  rounds_alone_ = verdict == PeerVerdict::kAlone ? rounds_alone_ + 1 : 0;
  switch (verdict) {
    case PeerVerdict::kGoOn:
      cluster_->found_uncontested(asked);
      break;
    case PeerVerdict::kTakenOver:
      return "another daemon has taken over";
    case PeerVerdict::kAlone:
      if (rounds_alone_ < kRoundsAlone || unconfirmed < cluster_->lease()) break;
      return "neither the database nor any other daemon replies: another one may have taken over";
  }
  return std::nullopt;
}

std::optional<PeerReply> PeerCheck::ask(const ClusterNode& peer) const {
  auto address = client::parse_address(peer.wire);
  if (!address) return std::nullopt;
  address->tls = options_.tls;
  address->verifies = false;
  address->certificate = options_.certificate;
  address->key = options_.key;
  const client::Deadline deadline = client::deadline_in(kPatience);
  client::Link link(-1);
  if (!link.connect(*address, deadline)) return std::nullopt;
  link.send(kQuestion);
  proto::ReplyReader reader;
  proto::Reply reply;
  for (;;) {
    const auto received = link.receive(reader.prepare(), deadline);
    if (!received) return std::nullopt;
    reader.commit(*received);
    const auto status = reader.next(reply);
    if (status == proto::ReadStatus::kNeedMore) continue;
    return reply_of(reply);
  }
}

}  // namespace locksley::daemon
