// The tables in the database, and what the database must promise. Internal to daemon/store/postgres.
#pragma once

#include <expected>
#include <string>

#include "config/config.h"
#include "daemon/store/postgres/connection.h"

namespace locksley::daemon {

// Creates the tables if there are none; refuses those of another version. Returns the id of the database's store, which
// its creation has chosen. The error is a sentence without the place.
std::expected<std::string, std::string> prepare_schema(Connection& connection);

// Whether a commit on this server means as much as `replication` says. The error likewise.
std::expected<void, std::string> check_promises(Connection& connection, config::Replication replication);

// The SQL of the tables, for those who create them by hand.
extern const char* const kSchema;

}  // namespace locksley::daemon
