// Which daemon may write. Internal to daemon/store/postgres.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>

#include "daemon/store/postgres/connection.h"

namespace locksley::daemon {

// What this daemon says of itself.
struct NodeNames {
  std::string name;
  std::string wire;
};

// Each life of a daemon has a row in locksley_node. It may write as long as that row is alive, and once it is not, it never
// is again. One daemon is alive at a time, and owns all shards.
//
// Makes a row for this daemon, and takes all shards. If another daemon is alive, waits for `lease`: if that daemon
// says nothing meanwhile, it is fenced; else this is the error. No clocks of different machines are compared. Blocks for
// some seconds at most. The number of the row.
std::expected<std::int32_t, std::string> join(Connection& connection, const std::string& store,
                                              const NodeNames& names, std::chrono::milliseconds lease);

// The name of a daemon's sessions, by which they are found when it is fenced.
std::string session_name(const std::string& store, std::int32_t node);

// Gives the shards up, so that another daemon need not wait.
PgExpected<void> leave(Connection& connection, std::int32_t node);

}  // namespace locksley::daemon
