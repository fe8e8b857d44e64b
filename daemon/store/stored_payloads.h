#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/payload.h"

namespace locksley::daemon {

class Database;

// Payloads of a batch that lie in the store, read when they are needed: a chunk at a time, for some thousands
// of jobs. Keeps the last chunks, one for each of several workers that are at different places of the batch.
//
// Owned by its batch; the database outlives it. Any number of workers fetch; a fetch may block on the disk,
// and while the database is being opened anew. Throws std::runtime_error if a payload cannot be read.
class StoredPayloads final : public PayloadSource {
 public:
  StoredPayloads(Database& database, std::uint64_t sequence) : database_(database), sequence_(sequence) {}

  // Copies into `scratch`, so that views live as long as it is left alone.
  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override;

 private:
  struct Chunk;
  static constexpr std::size_t kMostChunks = 8;  // guess

  // That in which the payload lies.
  std::shared_ptr<const Chunk> chunk_of(std::uint64_t index);
  std::shared_ptr<const Chunk> read(std::uint64_t index) const;

  Database& database_;
  const std::uint64_t sequence_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Chunk>> chunks_;  // guarded by mutex_; the last used one last
};

}  // namespace locksley::daemon
