// Follows the index on a thread of its own. Internal to daemon/store/postgres.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "core/sync/mutex.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/postgres/index_copy.h"
#include "daemon/store/postgres/index_following.h"

namespace locksley::daemon {

// IndexFollowing, from the constructor until take() or the destructor, so that the thread that
// watches the active daemon does not wait for the index. Writes to the ClusterBoard how many
// batches it has.
//
// Of one thread, which outlives this. take() and the destructor wait for the running operation: a
// statement, 2 s at most, or an attempt to connect (PrimaryFinder).
class IndexFollower {
 public:
  // As IndexFollowing; all references outlive this.
  IndexFollower(PrimaryFinder& primary, std::int32_t own, std::string session, std::string kinds,
                ClusterBoard& board, spdlog::logger& log)
      : board_(board),
        following_(primary, own, std::move(session), std::move(kinds), log, {}),
        thread_([this] { run(); }) {}
  ~IndexFollower() { stop(); }
  IndexFollower(const IndexFollower&) = delete;
  IndexFollower& operator=(const IndexFollower&) = delete;

  // Once. As IndexFollowing::finish().
  std::unique_ptr<IndexCopy> take() {
    stop();
    return following_.finish();
  }

 private:
  static constexpr auto kPeriod = std::chrono::milliseconds(500);

  void run() LOCKSLEY_EXCLUDES(mutex_);
  void stop() LOCKSLEY_EXCLUDES(mutex_);

  ClusterBoard& board_;
  IndexFollowing following_;  // the thread's; once that has ended, the owner's
  Mutex mutex_;
  CondVar stopped_;
  bool is_stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace locksley::daemon
