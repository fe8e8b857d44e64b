// Constants and functions for all readings of the tables. Internal to daemon/store/postgres. Any
// thread; nothing blocks or fails.
#pragma once

#include <chrono>
#include <string>

#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/connection.h"

namespace locksley::daemon {

// Guess. A lost connection is noticed by other means; a server that is paused is not.
inline constexpr auto kReadPatience = std::chrono::seconds(20);
// How long a reading of several batches waits for the server, which may have to sort the rows. A
// start has such readings, and a migration. A guess.
inline constexpr auto kScanPatience = std::chrono::minutes(10);

const char* name_of(Table table);
// Of the rows of locksley_name that belong to it.
Parameter place_name(Table table);

// The transaction of a reading begins with both, in this order. The table is locked before the
// first query, which takes the transaction's snapshot: otherwise a table that is truncated in
// between would be empty for it, while the rows that have moved from there would not be in their
// new table yet.
inline constexpr auto kBeginReading = "begin isolation level repeatable read read only";
std::string lock_sql(Table table);

// The error of a reading: kAway if it may succeed later; kNotOpen of ConnectionPool stays.
EngineError reading_error(PgError error);

}  // namespace locksley::daemon
