// The work of the active daemon on a PostgreSQL server besides its writer's. Internal to
// daemon/store/postgres.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/postgres/change_lists.h"
#include "daemon/store/postgres/compaction.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/fence.h"
#include "daemon/store/postgres/index_rewrite.h"
#include "daemon/store/postgres/node_watch.h"
#include "daemon/store/postgres/postgres_engine.h"
#include "daemon/store/postgres/primary_finder.h"
#include "daemon/store/postgres/shared_generations.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// A thread that beats while nothing is committed, checks the other daemons, measures the sizes of
// the tables, and frees the space of deleted rows. It has a connection of its own, and makes
// another one after a loss.
//
// A member of the engine, from the constructor to the destructor, which waits for the rest of a
// round: a beat, checks and measurements, of up to a lease each if the server is silent.
class ServerUpkeep {
 public:
  // What it shares with the engine, which outlives it.
  struct Shared {
    const PostgresOptions& options;
    const std::string& place;
    PrimaryFinder& primary;
    SharedGenerations& generations;
    TableSizes& sizes;
    ChangeLists& lists;
    Fence& fence;
    spdlog::logger& log;
  };

  // `session`: the name of its connection. `node`: this daemon's row.
  ServerUpkeep(Shared shared, std::string session, std::int32_t node);
  ~ServerUpkeep();
  ServerUpkeep(const ServerUpkeep&) = delete;
  ServerUpkeep& operator=(const ServerUpkeep&) = delete;

 private:
  // So many chances to beat before another daemon may conclude that this one is gone.
  static constexpr int kBeatsInLease = 6;
  static constexpr int kMovingShare = 2;  // of the time between two beats
  static constexpr auto kMeasurePeriod = std::chrono::seconds(5);

  // A way to free space: the rights that the role needs for it, and the obstacles.
  struct Way {
    std::string_view needs;
    Instant locked_until{};     // tables were in use, and are tried again then
    bool is_forbidden = false;  // the role may not do it, which was logged
  };

  void run() LOCKSLEY_EXCLUDES(mutex_);
  // A beat and a measurement, if they are due, a check of the other daemons, and the freeing of
  // space. After an error the connection cannot be used any more.
  PgExpected<void> run_due();
  // Only the check of the other daemons.
  PgExpected<void> check_nodes();
  // Connects, unless it has a usable connection.
  PgExpected<void> connect(Instant deadline);
  PgExpected<void> beat(Instant deadline);
  // Forgets those that have gone.
  PgExpected<void> look_at_nodes(Instant deadline);
  // Counts the standbys of the database. Called before beat(), which waits for one, so that the
  // lack of standbys is noticed.
  PgExpected<void> count_standbys(Instant deadline);
  // The sizes of the tables, unless they are locked, and the oldest transaction.
  PgExpected<void> measure(Instant deadline);
  // Once, unless something hinders it.
  template <class Part>
  PgExpected<void> free_room(Way& way, Part& part);

  const Shared shared_;
  const std::chrono::milliseconds lease_;
  const std::string session_;
  const std::int32_t node_;

  std::unique_ptr<PgConnection> connection_;  // null: there is none
  PrimaryFinder::Look look_ = PrimaryFinder::Look::kFirst;
  Instant counted_at_{};
  Instant measured_at_{};
  NodeWatch nodes_;
  Compaction compaction_;
  Way compacting_{.needs = "TRUNCATE on the tables of payloads and results"};
  IndexRewrite index_rewrite_;
  Way rewriting_{.needs = "TRUNCATE on locksley_index"};
  Way listing_{.needs = "TRUNCATE on the tables of locksley_change"};

  Mutex mutex_;
  CondVar ended_;
  bool is_ending_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace locksley::daemon
