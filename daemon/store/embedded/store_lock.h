// The lock file of a RocksDB database, which the process that has the database open holds. Internal
// to daemon/store/embedded.
#pragma once

#include <rocksdb/status.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace locksley::daemon {

// How long a start waits for a process that has the store open, and may be ending: one that closes
// a store writes its memtables to tables, at most 128 MiB. Guess.
inline constexpr std::chrono::milliseconds kLockPatience{5000};

// Whether `status`, of opening or of locking, says that another process has the database open.
bool is_lock_held(const rocksdb::Status& status);

// Waits until no process has the database in `folder` open, for kLockPatience at most; `on_wait` is
// called once before that. None: no process has it open, or it cannot be known. Else RocksDB's
// words. Blocks. It changes nothing in the folder, but that a lock file is there.
std::optional<std::string> await_unlocked(const std::string& folder, const std::function<void()>& on_wait);

}  // namespace locksley::daemon
