// The engine that is part of the daemon: RocksDB, one folder, no other process. To open it, or to
// repair it, blocks on the disk.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "daemon/store/engine/engine.h"

namespace rocksdb {
class Env;
}

namespace locksley::daemon {

// Opens it in the folder EngineOptions::path, for one daemon at a time. `env`: for tests that make
// the disk fail, outlives the engine; null: the system's.
OpenEngine embedded_engine(rocksdb::Env* env = nullptr);
// The result of a repair.
struct RepairReport {
  std::uint64_t batches = 0;            // that are there
  std::vector<std::string> aside = {};  // tables that could not be read, now in the folder `lost`
  bool has_cut_log = false;             // the log was damaged: its records from there on are lost
  bool is_whole() const { return aside.empty() && !has_cut_log; }
};
// Makes a sound database from the readable part of a damaged one, which no process has open.
std::expected<RepairReport, StoreRefusal> repair_embedded(const EngineOptions& options,
                                                          rocksdb::Env* env = nullptr);

}  // namespace locksley::daemon
