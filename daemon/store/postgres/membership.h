// Which daemon may write. Internal to daemon/store/postgres.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/index_follower.h"
#include "daemon/store/postgres/node_watch.h"
#include "daemon/store/postgres/postgres_engine.h"
#include "daemon/store/postgres/primary_finder.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The state of a daemon that has just become the active one.
struct Joined {
  std::int32_t node = 0;  // the number of this daemon's row
  // Of the daemon that was active before; null: this one has not stood by.
  std::unique_ptr<IndexFollower> follower = {};
  // Over which this daemon became the active one.
  std::unique_ptr<PgConnection> connection = {};
};

// Each life of a daemon has a row in locksley_node. At first it stands by (committed = -1, alive =
// false); then it may be the active one (alive), which owns all shards and alone may write; and
// once it is not alive any more, it never is again.
//
// Makes a row for this daemon, and returns once this daemon is the active one. While another daemon
// is alive, it beats and reads the rows once in a tenth of the lease, and watches whether that
// daemon's beat changes. It takes over when no daemon is alive, or when the beat was the same for a
// lease, seen by one connection. No clocks of different machines are compared.
//
// With PostgresOptions::stand_by it waits for that as long as it takes, over losses of the
// connection, too, and follows the index of the active daemon meanwhile; until stand_by() says that
// this daemon ends, which is an error. Without it, another daemon that lives is an error, and so is
// a lost connection. `connection`: to the database, with its tables. `primary` finds it again after
// a loss. Publishes the states of the daemons on the ClusterBoard. Blocks.
std::expected<Joined, std::string> join(const PostgresOptions& options, const std::string& store,
                                        PrimaryFinder& primary, std::unique_ptr<PgConnection> connection,
                                        spdlog::logger& log);

// The rows of all daemons, in the order of their numbers. Blocks on the network.
PgExpected<std::vector<NodeRow>> read_nodes(PgConnection& connection, Instant deadline);

// The name of a daemon's sessions, by which they are found when it is fenced.
std::string session_name(const std::string& store, std::int32_t node);

// Gives the shards up, so that another daemon need not wait.
PgExpected<void> leave(PgConnection& connection, std::int32_t node);

}  // namespace locksley::daemon
