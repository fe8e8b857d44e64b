// The engine that is part of the daemon: RocksDB, one folder, no other process.
#pragma once

#include <expected>
#include <string>

#include "daemon/store/engine/engine.h"

namespace rocksdb {
class Env;
}

namespace locksley::daemon {

// Opens it in the folder EngineOptions::path, for one daemon at a time. `env`: for tests that make
// the disk fail, outlives the engine; null: the system's.
OpenEngine embedded_engine(rocksdb::Env* env = nullptr);
// Makes a sound database of what is still readable in a damaged one, which no process has open. The
// error names the folder, says what is wrong and what to do.
std::expected<void, std::string> repair_embedded(const EngineOptions& options, rocksdb::Env* env = nullptr);

}  // namespace locksley::daemon
