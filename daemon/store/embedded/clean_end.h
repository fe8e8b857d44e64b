// The note that a clean shutdown leaves beside RocksDB's files, by which the next start detects
// missing files. Internal to daemon/store/embedded.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <cstdint>
#include <expected>
#include <string>

namespace locksley::daemon {

// A file in the store's folder with the name, size and checksum of RocksDB's manifest after all
// rows had been flushed to tables. RocksDB takes some kinds of damage in its manifest for the
// manifest's end, and then loses the tables and logs that are named after the damage; the note
// detects that. There is no note while the store is open, nor after a crash.
//
// A value, on the stack of the thread that opens or closes the database. All members block on the
// disk.
class CleanEndNote {
 public:
  static constexpr const char* kFile = "CLEAN_END";

  // `env` null: the system's.
  CleanEndNote(rocksdb::Env* env, std::string folder);

  struct Mismatch {
    enum class Of : std::uint8_t {
      kManifest,
      kNote,    // the note itself is damaged: it says nothing about the manifest
      kSystem,  // a file could not be read, and not because of its content
    };
    Of of = Of::kManifest;
    std::string what;
  };
  // Call it before the database is opened. Without a note there is no mismatch.
  std::expected<void, Mismatch> check() const;
  // Call it before anything is changed. The error is the system's.
  std::expected<void, std::string> remove() const;
  // Writes the note. Call it after the last flush and compaction. If the disk fails, there is no
  // note: that is as safe as a crash.
  void leave() const;

 private:
  std::string path_of(const std::string& file) const { return folder_ + "/" + file; }
  // The current manifest as "name size checksum". The error says which file is missing, or cannot
  // be read.
  std::expected<std::string, Mismatch> describe() const;
  rocksdb::Status sync_folder() const;

  rocksdb::Env* const env_;
  const std::string folder_;
};

}  // namespace locksley::daemon
