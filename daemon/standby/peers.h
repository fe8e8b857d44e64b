// Asks the other daemons on the same database about this one, once the database does not confirm
// that it lives.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/cluster_board.h"

namespace locksley::daemon {

// The reply of a daemon to ACTIVE.
struct PeerReply {
  std::int32_t active = 0;          // the number of the daemon that it saw to be the active one; 0: none
  std::chrono::milliseconds age{};  // of its last view of the database; kNever: it has seen nothing

  static constexpr auto kNever = std::chrono::milliseconds::max();
};

// What an active daemon learns from the others while its database is away.
enum class PeerVerdict : std::uint8_t {
  kGoOn,       // the database is away for all, or none of them has taken over yet
  kTakenOver,  // another daemon is the active one
  kAlone,      // no other daemon replies
};

// The verdict on the active daemon `self`, which the database has not confirmed to be alive for
// `unconfirmed`. Views from before that do not count, since this daemon may have become the active
// one afterwards. `replies`: one for each peer; none: it did not reply.
PeerVerdict judge(std::int32_t self, std::chrono::milliseconds unconfirmed,
                  std::span<const std::optional<PeerReply>> replies);

// Ends an active daemon that has lost its database and may have lost its batches: it must neither
// send clients outdated replies nor run jobs that another daemon runs, too.
//
// Once two fifths of the lease are left it asks all daemons that stood by, at their ports for
// clients, four times a second. If one of them says that another daemon is active, or if none has
// replied three times when the lease is over, it calls `on_lost`, once. While they reply that they
// cannot reach the database either, or that they have not taken over, the daemon goes on as with a
// failing disk. A daemon beside which none stood by goes on, too. Each time it tells the board so,
// because a daemon that has not done this for too long executes no command that needs batches
// (ClusterBoard::is_unconfirmed).
//
// Owned by build_and_run() (daemon/main.cc), from when the daemon serves until it ends. It has a
// thread of its own, for which the destructor waits, a second at most.
class PeerCheck {
 public:
  struct Options {
    // At the ports for clients, as at this daemon's. Certificates are not verified: a host that
    // could reply in the place of a daemon could cut the connection as well.
    bool tls = false;
    std::string certificate = {};  // shown to those that ask for one
    std::string key = {};
  };
  // `on_lost`: called by the thread, with the reason, a sentence; may not return.
  PeerCheck(std::shared_ptr<ClusterBoard> cluster, Options options,
            std::function<void(std::string_view why)> on_lost);
  ~PeerCheck();
  PeerCheck(const PeerCheck&) = delete;
  PeerCheck& operator=(const PeerCheck&) = delete;

 private:
  void run() LOCKSLEY_EXCLUDES(mutex_);
  // Asks, if it is time. The reason to call on_lost.
  std::optional<std::string_view> check();
  std::optional<PeerReply> ask(const ClusterNode& peer) const;

  const std::shared_ptr<ClusterBoard> cluster_;
  const Options options_;
  const std::function<void(std::string_view why)> on_lost_;

  // The thread alone.
  int rounds_alone_ = 0;  // in so many rounds no daemon has replied
  Instant checked_at_ = now();
  Instant paused_until_{};  // when a pause of the process was noticed last

  Mutex mutex_;
  CondVar ended_;
  bool is_ending_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace locksley::daemon
