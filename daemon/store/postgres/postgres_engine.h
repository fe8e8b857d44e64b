// The interface of the engine on a PostgreSQL server. Without libpq's headers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "config/config.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// The options of an engine on a database. README.md explains the times.
struct PostgresOptions {
  std::string url;
  config::Replication replication = config::Replication::kRequired;
  std::string name;          // of this daemon, for people
  std::string wire;          // where its clients connect, likewise
  std::string workers = {};  // where remote workers connect; sent to them; empty: nowhere
  // Another daemon whose row has not changed for so long may be fenced.
  std::chrono::milliseconds lease = std::chrono::seconds(5);
  // How long a commit waits for its reply once the server has taken all of it, or for the server to
  // take more; and then for a database that can be written, before its group counts as failed.
  std::chrono::milliseconds reply_time = std::chrono::seconds(10);
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  // A generation of batches has at least so many bytes in its table of payloads, and in that of
  // results.
  std::uint64_t generation_bytes = std::uint64_t{16} << 20;
  // Where this daemon publishes the states of all daemons, and its own role. Null: it publishes
  // nothing.
  std::shared_ptr<ClusterBoard> cluster = {};
  // Called while another daemon is active, or the database cannot be reached, by the thread that
  // opens the engine: waits for so long. False: this daemon ends, so opening is an error. May
  // throw. Empty: the daemon does not stand by; another daemon that is active is an error.
  std::function<bool(std::chrono::milliseconds)> stand_by = {};
  // While it stands by, it keeps a copy of the rows of the index of these kinds, ascending, from
  // which scan_batches() with the same kinds is served at first. Empty: of none.
  std::string followed_kinds = {};
  // Another daemon has taken over, or the database has lost groups that were acknowledged: from now
  // on nothing can be written, and no client may be answered. Called once, by any thread; may not
  // return. Empty: commits fail with kFenced, and that is all.
  std::function<void()> on_fenced = {};
};

// Opens the database that `url` names, once this daemon is the active one; EngineOptions::path is
// not used. Creates the tables if there are none.
OpenEngine postgres_engine(PostgresOptions options);

// The address without secrets, for messages: hosts, ports and the database.
std::string postgres_place(const std::string& url);

}  // namespace locksley::daemon
