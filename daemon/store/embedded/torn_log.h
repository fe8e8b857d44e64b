// The last record of RocksDB's log, when a power failure has torn it. Internal to
// daemon/store/embedded.
#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/store/embedded/log_continuity.h"

namespace locksley::daemon {

// PaddedLogs lets records overwrite zeros. If the power fails before such a record has been synced,
// each of its sectors has the new bytes or is still zeros. RocksDB takes such a record for damage,
// and would not open the database. These functions tell it from damage of records that were synced,
// as the write-ahead log of etcd does (isTornEntry): a record is torn if at least one of its
// sectors is zeros, and if it is the last one. The last record is the only one that may be
// unsynced.
//
// So a torn record was not acknowledged. Two kinds of damage look like one: a synced sector of the
// last record that reads as zeros; and another damage of the last record, if a whole sector of it
// should be zeros.
//
// Any thread may call them. The format is that of the page "Write Ahead Log File Format" in
// RocksDB's documentation: records in fragments, each with a header of 7 bytes; no fragment crosses
// the end of a block of 32 KiB.

// `log` is a whole log, of which RocksDB read the first `records`. Returns where the torn record
// after these begins; nothing: there is none, or it is damage.
std::optional<std::uint64_t> torn_record(std::string_view log, std::uint64_t records);

// After RocksDB has refused the logs in `folder`, and `replayed` has seen the records that it read
// from them: cuts a torn record off the last log. Returns the name of that log; empty: nothing was
// cut off. Blocks on the disk. `env` null: the system's.
std::string cut_torn_record(rocksdb::Env* env, const std::string& folder, const LogContinuity& replayed);

}  // namespace locksley::daemon
