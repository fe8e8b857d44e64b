#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/payload.h"
#include "core/sync/mutex.h"

namespace locksley::daemon {

class Engine;
class Reachability;
struct EngineError;

// The payloads of one batch in the store, read when workers need them: one chunk at a time, which
// holds some thousands of payloads. Keeps the chunks used last, so that several workers at
// different places of the batch do not read the same chunk again and again.
//
// Owned by its batch; the others outlive it. Any thread may fetch, several at once. A fetch blocks on the disk, and for a
// second or two on a server that does not reply, or for twenty on one that sends a large payload slowly. While the engine is
// being reopened or is away, or if the payload did not come in that time, a fetch returns 0.
// Throws std::runtime_error if the store lacks a payload, or the disk cannot read it.
class StoredPayloads final : public PayloadSource {
 public:
  // How long a reading waits for a reply: twice as long as the last one took, since payloads may be large, and the link slow;
  // after one that has failed, twice as long as that waited.
  static constexpr std::chrono::milliseconds kPatience{1000};  // guesses
  static constexpr std::chrono::milliseconds kMostPatience{20'000};
  // `inside`: those inside the row of the batch's acceptance, if that has been read: they are kept until drop_cached().
  // `patience`: of the first reading.
  StoredPayloads(Engine& engine, Reachability& reachability, std::uint64_t sequence, std::string inside = {},
                 std::chrono::milliseconds patience = kPatience);

  // Copies the payloads into `scratch`: the views are valid until it changes.
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override
      LOCKSLEY_EXCLUDES(mutex_);
  // At most kMostChunks of some 128 KiB: a large payload is a chunk by itself, which is of no use to another job, and
  // is not kept.
  std::uint64_t memory_bytes() const override LOCKSLEY_EXCLUDES(mutex_);
  void drop_cached() override LOCKSLEY_EXCLUDES(mutex_);

 private:
  struct Chunk;
  static constexpr std::size_t kMostChunks = 8;  // guess

  // The chunk that holds this payload. Null: it cannot be read now.
  std::shared_ptr<const Chunk> chunk_of(std::uint64_t index) LOCKSLEY_EXCLUDES(mutex_);
  std::shared_ptr<const Chunk> read(std::uint64_t index);
  // The error is kAway also while the engine is being reopened.
  std::expected<std::shared_ptr<const Chunk>, EngineError> try_read(std::uint64_t index,
                                                                    std::chrono::milliseconds patience) const;

  Engine& engine_;
  Reachability& reachability_;
  const std::uint64_t sequence_;
  std::atomic<std::chrono::milliseconds> patience_;
  mutable Mutex mutex_;
  // Least recently used first.
  std::vector<std::shared_ptr<const Chunk>> chunks_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
