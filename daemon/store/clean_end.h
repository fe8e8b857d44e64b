// What a clean end leaves beside RocksDB's files, so that the next start can tell whether something is
// missing. Internal to daemon/store.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <expected>
#include <string>

namespace locksley::daemon {

// A note, in a file of the store's folder, of what RocksDB's manifest was when everything was in tables.
// RocksDB takes some damage of its manifest for the end of it, and then knows nothing of tables and logs that
// were named behind it; with the note that is seen. While the store is open, and after a crash, there is
// none.
//
// A value; used by the thread that opens and closes the database. Blocks on the disk.
class CleanEndNote {
 public:
  static constexpr const char* kFile = "CLEAN_END";

  // `env` null: the system's.
  CleanEndNote(rocksdb::Env* env, std::string folder);

  struct Mismatch {
    std::string what;
    bool is_of_the_note = false;  // the note itself is damaged; of the rest nothing is known
  };
  // Before the database is opened. No note, no mismatch.
  std::expected<void, Mismatch> check() const;
  // Before anything is changed. The error is what the system said.
  std::expected<void, std::string> remove() const;
  // Once all is in tables and nothing changes them any more. Does without if the disk fails: that is as safe
  // as a crash.
  void leave() const;

 private:
  std::string path_of(const std::string& file) const { return folder_ + "/" + file; }
  // The name of the manifest that counts, and what it is: "name size checksum"; the error says what is wrong.
  std::expected<std::string, std::string> describe() const;
  rocksdb::Status sync_folder() const;

  rocksdb::Env* const env_;
  const std::string folder_;
};

}  // namespace locksley::daemon
