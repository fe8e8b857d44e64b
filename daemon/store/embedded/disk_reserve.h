// How much of a file system the store leaves free, and sizes of files that follow from it.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "daemon/store/engine/disk_space.h"

namespace locksley::daemon {

// Sizes that follow from the size of the file system. On one of 128 GB and more they are RocksDB's
// usual ones; on smaller ones a flush or a compaction must not need more room than the store leaves
// free.
struct StoreSizes {
  std::uint64_t memtable;     // of one column family, and of a table file; the unit of the others
  std::uint64_t room;         // left free: a compaction takes up to some 12 memtables at a time
  std::uint64_t reserve;      // of the file that is deleted if the disk is full all the same
  std::uint64_t write_bytes;  // most bytes of one write to RocksDB, except a single large value
  bool is_small = false;      // less than RocksDB's usual sizes

  // Unknown: as of a large one.
  static StoreSizes of(const std::optional<DiskSpace>& disk);
};

// The store's share of a full disk: room that only deletions may use.
//
// The store refuses writes that would leave less than `room` bytes free. Other programs do not know
// that limit, so a file of `reserve` bytes, RESERVE, occupies some space while little is free. If
// the disk is full all the same, the file is deleted, and the store can delete batches in that
// space.
//
// Owned by the engine; its writer's thread only. Each call makes a system call or two. Nothing
// fails: a file that cannot be made is missing.
class DiskReserve {
 public:
  static constexpr const char* kFile = "RESERVE";

  DiskReserve(std::string folder, StoreSizes sizes);

  const StoreSizes& sizes() const { return sizes_; }
  // Whether so many bytes more can be written twice, as a log and as a table, with the room left
  // free. If so, and if little more is free, makes the file. The error is a sentence for the
  // operator.
  std::expected<void, std::string> check(std::uint64_t bytes);
  void release();
  // The same with a quarter of the room: the next start needs some.
  bool has_last_room(std::uint64_t bytes) const;

 private:
  void make();

  const std::string folder_;
  const std::string file_;
  const StoreSizes sizes_;
  bool is_made_ = false;
};

}  // namespace locksley::daemon
