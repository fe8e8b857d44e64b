// Where RocksDB begins its search for the place of a new row. Internal to daemon/store/embedded.
#pragma once

#include <rocksdb/slice_transform.h>

#include <string_view>

namespace locksley::daemon {

// RocksDB keeps the newest rows in a list in the order of their keys, its memtable. By itself it
// remembers the place of the last row only; a row that does not come next to it is searched among
// all rows. With these hints it remembers the last place for each kind of row, and searches for the
// place of the next row of that kind from there. Rows that follow each other lie near each other:
// those of new batches are the last, and those of batches that end or are forgotten are a little
// before.
//
// RocksDB before version 9.2 takes a hint for a deleted range, too, whose list is another one (pull
// request 12558 of RocksDB). If a range begins with a key that has a hint, the range is not
// deleted, or an assertion of Debian's build ends the process. So only the rows of which a batch
// has one each have hints: the batch, its changes and its end. No version of the store has deleted
// a range that begins with such a key, so there is none in a log that a start replays, and
// RocksEngine begins no range with one.
//
// Owned by the options of the index, and so by its memtables. Without state: any thread may call
// it, and nothing blocks or fails.
class InsertHints final : public rocksdb::SliceTransform {
 public:
  // Whether rows with this key have a hint.
  static bool has_hint(std::string_view key);

  const char* Name() const override { return "locksley.InsertHints"; }
  bool InDomain(const rocksdb::Slice& key) const override { return has_hint(key.ToStringView()); }
  // The kind of the row.
  rocksdb::Slice Transform(const rocksdb::Slice& key) const override { return {key.data(), 1}; }
};

}  // namespace locksley::daemon
