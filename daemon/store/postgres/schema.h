// The tables in the database, and the guarantees that the database must give. Internal to
// daemon/store/postgres. The thread that has the connection; all functions block for the server.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "config/config.h"
#include "daemon/base/time.h"
#include "daemon/store/postgres/connection.h"

namespace locksley::daemon {

// Creates the tables if there are none; refuses those of another version, but for earlier ones that
// convert_schema() knows. Returns the id of the database's store, which its creation has chosen.
// The error is a sentence without the place.
std::expected<std::string, std::string> prepare_schema(PgConnection& connection);

// Tables of an earlier version get their form of today, which programs of that version cannot use.
// An error if this daemon, with the row `node`, is not the active one. The error likewise. Blocks
// until indexes are made anew, and other daemons wait meanwhile for the row.
std::expected<void, std::string> convert_schema(PgConnection& connection, std::int32_t node);

// Whether the table of the lists of changed batches is there, in the schema of the other tables.
PgExpected<bool> has_changes(PgConnection& connection, Instant deadline);

// The tables of the lists of changed batches, which a store of an earlier version lacks: creates
// them if this role may. How many bytes the first half has; none: the role may not write them. The
// error likewise.
std::expected<std::optional<std::uint64_t>, std::string> prepare_changes(PgConnection& connection);

// Whether a commit on this server gives the guarantee that `replication` asks for. The error
// likewise.
std::expected<void, std::string> check_promises(PgConnection& connection, config::Replication replication);

// The SQL of the tables.
std::string schema_sql();

}  // namespace locksley::daemon
