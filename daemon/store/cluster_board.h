// The daemons that share one store, as far as this daemon knows: which is active, which stand by.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

// A life of a daemon, as this daemon sees it.
struct ClusterNode {
  enum class State : std::uint8_t { kActive, kStandby, kGone };

  std::int32_t number = 0;  // 0: the store is this daemon's alone
  std::string name;
  State state = State::kGone;
  std::string wire;          // where its clients connect
  std::string workers = {};  // where its remote workers connect; empty: it has no port for them
  std::uint32_t shards = 0;  // that it owns
  // When this daemon last saw a sign of life of the node; none: the store is this daemon's alone.
  std::optional<Instant> beaten_at = {};

  std::chrono::milliseconds beat_age(Instant at) const;
};
std::string_view to_string(ClusterNode::State state);

// All daemons of the store at one moment. Immutable once it is published.
struct ClusterView {
  std::vector<ClusterNode> nodes;       // in the order of their numbers
  std::uint32_t unowned_shards = 0;     // no daemon has them
  std::optional<std::string> trouble;   // why nothing newer is known: the database cannot be reached
  std::optional<Instant> seen_at = {};  // none: the store is this daemon's alone

  // The active daemon; null: there is none, as far as is known.
  const ClusterNode* active() const;
};

// The board on which the store's engine publishes the states of the daemons, for commands, pages
// and metrics.
//
// Owned by StoreParts, and shared with the engine. Any thread. The mutex is held for a copy of a
// pointer. Nothing blocks or fails.
class ClusterBoard {
 public:
  enum class Role : std::uint8_t {
    kStandby,  // another daemon is active, or will be; this one has no batches
    kLoading,  // this daemon owns the batches, and reads them
    kActive,   // it serves
    // It served, and another daemon may have taken over meanwhile: see is_unconfirmed().
    kUnconfirmed,
  };
  static constexpr std::uint32_t kShards = 64;

  // The node of a daemon whose store no other daemon can share.
  static ClusterNode alone(std::string name, std::string wire, std::string workers);

  // Called for each command.
  Role role() const {
    const Role role = role_.load();
    return role == Role::kActive && lease().count() != 0 && is_unconfirmed(now()) ? Role::kUnconfirmed : role;
  }
  // Needs: not kUnconfirmed.
  void set_role(Role role) { role_.store(role); }

  using View = std::shared_ptr<const ClusterView>;
  // Never null.
  View get() const LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return view_;
  }
  void set(ClusterView view) LOCKSLEY_EXCLUDES(mutex_);
  // Keeps the last view, and adds the reason why there is no newer one.
  void set_trouble(std::string why) LOCKSLEY_EXCLUDES(mutex_);

  // The database has confirmed a sign of life that this daemon sent at `sent`. No other daemon
  // takes over until `lease` has passed since then. A sign of life that is older than the last
  // confirmed one has no effect.
  void beaten(Instant sent);
  Instant beaten_at() const { return Instant(Instant::duration(beaten_at_.load())); }
  // Called when the database confirms nothing, but at `asked` no other daemon was known to have
  // taken over. That holds for kUncontestedFor: a round of questions takes up to a second, so its
  // result comes late, and the next one a round and a pause after it.
  void found_uncontested(Instant asked) { uncontested_at_.store(asked.time_since_epoch().count()); }
  static constexpr auto kUncontestedFor = std::chrono::milliseconds(3500);
  // Whether another daemon may have taken over without this one's knowledge: this daemon has a
  // lease, which is over, and the others were last asked longer than kUncontestedFor ago. This is
  // so after the process was paused.
  bool is_unconfirmed(Instant at) const;
  void set_lease(std::chrono::milliseconds lease) { lease_ms_.store(lease.count()); }
  std::chrono::milliseconds lease() const { return std::chrono::milliseconds(lease_ms_.load()); }  // 0: none
  // How long until another daemon may take over, if no further sign of life is confirmed; not
  // below 0. None: this daemon has no lease, because it is not active, or because no other daemon
  // can have its store.
  std::optional<std::chrono::milliseconds> lease_left(Instant at) const;

  // The age of the oldest transaction in the database, as it was measured last. None: there is no
  // database, or nothing was measured yet.
  void set_oldest_transaction(std::chrono::milliseconds age) { oldest_transaction_ms_.store(age.count()); }
  std::optional<std::chrono::milliseconds> oldest_transaction() const;

  // How many standbys of the database a commit waits for, or may wait for. None: the daemon's role
  // may not see it, or there is no database, or nothing was measured yet.
  void set_synchronous_standbys(std::optional<std::uint64_t> count) {
    synchronous_standbys_.store(count ? static_cast<std::int64_t>(*count) : -1);
  }
  std::optional<std::uint64_t> synchronous_standbys() const;

  // The number of batches whose rows this daemon has copied while it stands by; none: it has no
  // copy, and a takeover reads all rows.
  void set_followed(std::optional<std::uint64_t> batches) {
    followed_.store(batches ? static_cast<std::int64_t>(*batches) : -1);
  }
  std::optional<std::uint64_t> followed() const;

  // Counters of this process.
  void count_adoption() { ++adoptions_; }
  void count_fencing() { ++fencings_; }
  std::uint64_t adoptions() const { return adoptions_; }  // how often it has taken the batches over
  std::uint64_t fencings() const { return fencings_; }    // how many daemons it has kept from writing

 private:
  // Written by the thread that starts the daemon, read by all. A command that reads the role of a
  // moment ago gets a refusal that was right a moment ago: no batch can be reached before kActive.
  std::atomic<Role> role_{Role::kActive};
  // Written by the engine's threads. A thread that reads the value of a moment ago takes the lease
  // to be over sooner.
  std::atomic<Instant::rep> beaten_at_{0};
  std::atomic<Instant::rep> uncontested_at_{0};          // written by the thread of PeerCheck. Likewise
  std::atomic<std::int64_t> lease_ms_{0};                // 0: none. For display
  std::atomic<std::int64_t> oldest_transaction_ms_{-1};  // below 0: none. Likewise
  std::atomic<std::int64_t> synchronous_standbys_{-1};   // below 0: none. Likewise
  std::atomic<std::int64_t> followed_{-1};               // below 0: none. Likewise
  std::atomic<std::uint64_t> adoptions_{0};
  std::atomic<std::uint64_t> fencings_{0};
  mutable Mutex mutex_;
  View view_ LOCKSLEY_GUARDED_BY(mutex_) = std::make_shared<ClusterView>();
};

// Where the active daemon is, for a reply: "the active daemon is 10.0.0.1:7770", or that there is
// none. where_workers_connect(): the same with the address for remote workers.
std::string where_the_active_daemon_is(const ClusterView& view);
std::string where_workers_connect(const ClusterView& view);

// The errors of a daemon that has taken over, and does not serve yet; and of one that is
// Role::kUnconfirmed.
inline constexpr std::string_view kLoadingError =
    "LOADING this daemon has taken over, and reads the batches: retry later";
inline constexpr std::string_view kUnconfirmedError =
    "LOADING this daemon was paused, or has lost its database, and finds out whether another one has taken "
    "over: retry later";

}  // namespace locksley::daemon
