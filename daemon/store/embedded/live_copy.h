// Copies the files of an open database. Internal to daemon/store/embedded.
#pragma once

#include <rocksdb/db.h>

#include <functional>
#include <string>

namespace locksley::daemon {

// Where a copy goes, and for how long it goes on.
struct LiveCopy {
  std::string folder;             // is made; its parent exists
  std::function<bool()> goes_on;  // asked at least once for each MiB; false: the copy is given up
};

// Copies the database as it is at one moment of the call, with the part of its log that is written
// by then. Files of the store that are not RocksDB's are not copied, so the copy opens like a store
// that did not end in order. Tables, which never change, become hard links where the folder is on
// the same file system, and are copied elsewhere; all else is copied. Commits go on; no memtable is
// flushed for it; the database deletes no file meanwhile.
//
// Not for the writer's thread: it blocks on the disk, and returns once the folder and its files are
// synced. kAborted: goes_on() said no. After an error the folder has a part of the files.
rocksdb::Status copy_live_files(rocksdb::DB& db, const LiveCopy& copy);

}  // namespace locksley::daemon
