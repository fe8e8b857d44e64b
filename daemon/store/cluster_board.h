// What is known of the daemons that share one store: which is active, which stand by.
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
  // When this daemon saw a sign of life of it last; none: it is this daemon, which shares its store with no other.
  std::optional<Instant> beaten_at = {};

  std::chrono::milliseconds beat_age(Instant at) const;
};
std::string_view to_string(ClusterNode::State state);

// All of them at one moment. Immutable once it is published.
struct ClusterView {
  std::vector<ClusterNode> nodes;       // in the order of their numbers
  std::uint32_t unowned_shards = 0;     // no daemon has them
  std::optional<std::string> trouble;   // why nothing newer is known: the database cannot be reached
  std::optional<Instant> seen_at = {};  // none: the store is this daemon's alone

  // The active daemon; null: there is none, as far as is known.
  const ClusterNode* active() const;
};

// The board on which the store's engine writes what it sees of the daemons, and from which commands, pages and metrics
// read.
//
// Owned by StoreParts, and shared with the engine. Any thread. The mutex is held for a copy of a pointer. Nothing blocks
// or fails.
class ClusterBoard {
 public:
  enum class Role : std::uint8_t {
    kStandby,  // another daemon is active, or will be; this one has no batches
    kLoading,  // this daemon owns the batches, and reads them
    kActive,   // it serves
  };
  static constexpr std::uint32_t kShards = 64;

  // Of a daemon whose store no other daemon can have.
  static ClusterNode alone(std::string name, std::string wire, std::string workers);

  // Each command asks for it.
  Role role() const { return role_.load(); }
  void set_role(Role role) { role_.store(role); }

  using View = std::shared_ptr<const ClusterView>;
  // Never null.
  View get() const LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return view_;
  }
  void set(ClusterView view) LOCKSLEY_EXCLUDES(mutex_);
  // What was seen last stays, with a reason why there is nothing newer.
  void set_trouble(std::string why) LOCKSLEY_EXCLUDES(mutex_);

  // The database has confirmed that this daemon lives. After `lease` without it another daemon may take over.
  void beaten(Instant at) { beaten_at_.store(at.time_since_epoch().count()); }
  Instant beaten_at() const { return Instant(Instant::duration(beaten_at_.load())); }
  void set_lease(std::chrono::milliseconds lease) { lease_ms_.store(lease.count()); }
  std::chrono::milliseconds lease() const { return std::chrono::milliseconds(lease_ms_.load()); }  // 0: none
  // After what time another daemon may take over, if no further sign of life is confirmed; not below 0. None: this daemon
  // has no lease, because it is not active, or because no other daemon can have its store.
  std::optional<std::chrono::milliseconds> lease_left(Instant at) const;

  // The age of the oldest transaction in the database, as it was measured last. None: there is no database, or nothing was
  // measured yet.
  void set_oldest_transaction(std::chrono::milliseconds age) { oldest_transaction_ms_.store(age.count()); }
  std::optional<std::chrono::milliseconds> oldest_transaction() const;

  // Of how many batches this daemon, which stands by, has a copy of the rows; none: it has no copy, and a takeover reads all.
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
  // Written by the thread that starts the daemon, read by all. A command that reads the role of a moment ago gets a
  // refusal that was right a moment ago: no batch can be reached before kActive.
  std::atomic<Role> role_{Role::kActive};
  std::atomic<Instant::rep> beaten_at_{0};  // written by the engine's threads; a number to look at
  std::atomic<std::int64_t> lease_ms_{0};   // 0: none. Likewise
  std::atomic<std::int64_t> oldest_transaction_ms_{-1};  // below 0: none. Likewise
  std::atomic<std::int64_t> followed_{-1};               // below 0: none. Likewise
  std::atomic<std::uint64_t> adoptions_{0};
  std::atomic<std::uint64_t> fencings_{0};
  mutable Mutex mutex_;
  View view_ LOCKSLEY_GUARDED_BY(mutex_) = std::make_shared<ClusterView>();
};

// Where the active daemon is, for a reply: "the active daemon is 10.0.0.1:7770", or that there is none. The second: where
// its remote workers connect.
std::string where_the_active_daemon_is(const ClusterView& view);
std::string where_workers_connect(const ClusterView& view);

// The error of a daemon that has taken over, and does not serve yet.
inline constexpr std::string_view kLoadingError =
    "LOADING this daemon has taken over, and reads the batches: retry later";

}  // namespace locksley::daemon
