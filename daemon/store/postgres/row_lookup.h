// Reads single rows from PostgreSQL. Internal to daemon/store/postgres.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/connection_pool.h"

namespace locksley::daemon {

// All in one round trip, and any thread; they block on the network.

// As EngineReading::get(). Waits for the reply for `patience`, after it may have connected.
std::expected<bool, EngineError> get_row(ConnectionPool& pool, Table table, std::string_view key,
                                         std::string& value, std::chrono::milliseconds patience);

// As EngineReading::get_within().
std::expected<RowValues, EngineError> get_rows(ConnectionPool& pool, Table table, std::span<const Key> keys,
                                               std::chrono::milliseconds patience,
                                               ReadingConnection connection);

// As EngineReading::first_row(), with the patience of get_row() and until `stop`. Needs: the range
// is in one batch (PlaceRange::is_of_one_batch).
std::expected<std::optional<FoundRow>, EngineError> first_row_in_batch(ConnectionPool& pool,
                                                                       const RowRange& range,
                                                                       std::chrono::milliseconds patience,
                                                                       const std::stop_token& stop);

// As EngineReading::highest_batch(). By the primary keys: one look-up for each shard and table.
std::expected<std::uint64_t, EngineError> read_highest_batch(ConnectionPool& pool);

}  // namespace locksley::daemon
