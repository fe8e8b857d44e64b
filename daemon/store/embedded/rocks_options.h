// How the store configures RocksDB. Internal to daemon/store/embedded. Any thread; nothing blocks.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <memory>
#include <vector>

#include "daemon/store/embedded/disk_reserve.h"
#include "daemon/store/embedded/log_continuity.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// `env` null: the system's. `continuity` outlives the opening; null: no look at the log.
rocksdb::DBOptions database_options(const EngineOptions& options, rocksdb::Env* env, const StoreSizes& sizes,
                                    LogContinuity* continuity = nullptr);
// Of one table; with a cache of its own if `cache` is null.
rocksdb::ColumnFamilyOptions family_options(const std::shared_ptr<rocksdb::Cache>& cache,
                                            const StoreSizes& sizes);
// Of all tables, in the order of Table, with one cache.
std::vector<rocksdb::ColumnFamilyDescriptor> families(const StoreSizes& sizes);

}  // namespace locksley::daemon
