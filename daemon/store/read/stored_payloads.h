// The payloads of a batch that lie in the store.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/payload.h"
#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/read/payload_fetcher.h"
#include "daemon/store/read/reader.h"
#include "daemon/store/read/stored_chunk.h"

namespace locksley::daemon {

class Engine;
class Reachability;

// The payloads of one batch in the store, read when workers need them: one chunk at a time, which
// holds some thousands of payloads. Keeps the chunks used last, so that several workers at
// different places of the batch do not read the same chunk again and again.
//
// Owned by its batch, or by the search for one job; the Engine, the Reachability and the
// PayloadFetcher outlive it. Any thread may fetch, several at once. If the thread that fetches
// reads by itself, a fetch blocks on the disk, and for a second or two on a server that does not
// reply, or for twenty on one that sends a large payload slowly. If a PayloadFetcher reads, a fetch
// blocks for PayloadFetcher::patience() at most. While the engine is being reopened or is away, or
// if the payload did not come in that time, a fetch returns 0. Throws std::runtime_error if the
// store lacks a payload, or it cannot be read.
class StoredPayloads final : public PayloadSource {
 public:
  // For payloads that the thread that fetches reads. `inside`: the payloads inside the row of the
  // batch's acceptance, if that row has been read: they are kept until drop_cached(). `patience`:
  // of the first reading.
  StoredPayloads(Engine& engine, Reachability& reachability, std::uint64_t sequence, std::string inside = {},
                 std::chrono::milliseconds patience = ChunkPatience::kFirst);
  // For payloads that the fetcher reads. `user`: whose batch it is.
  StoredPayloads(PayloadFetcher& fetcher, std::uint64_t sequence, Reader::User user, std::string inside = {});
  ~StoredPayloads() override;
  StoredPayloads(const StoredPayloads&) = delete;
  StoredPayloads& operator=(const StoredPayloads&) = delete;

  // Copies the payloads into `scratch`: the views are valid until it changes.
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override
      LOCKSLEY_EXCLUDES(mutex_);
  // The bytes of the kept chunks, at most kMostChunks of some 128 KiB, and of the rows that lie in
  // the fetcher. A large payload is a chunk by itself, which no other job needs, and is not kept.
  std::uint64_t memory_bytes() const override LOCKSLEY_EXCLUDES(mutex_);
  void drop_cached() override LOCKSLEY_EXCLUDES(mutex_);

 private:
  static constexpr std::size_t kMostChunks = 8;  // guess

  // A chunk that a fetch uses.
  struct Found {
    SharedChunk chunk{};                      // null: the chunk cannot be read now
    PayloadFetcher::SharedWants lies_with{};  // null: the chunk does not lie in the fetcher
  };
  // The search of one fetch for its chunks.
  struct Search {
    PayloadFetcher::Look look;
    std::optional<Instant> until{};  // set when it first asks the fetcher: until when it waits
  };

  void keep_inside(std::string inside) LOCKSLEY_EXCLUDES(mutex_);
  // The chunk that holds this payload.
  Found chunk_of(std::uint64_t index, Search& search) LOCKSLEY_EXCLUDES(mutex_);
  void keep(const SharedChunk& chunk) LOCKSLEY_EXCLUDES(mutex_);
  // Reads the chunk on the thread that fetches. Null: it cannot be read now.
  SharedChunk read(std::uint64_t index);

  // Constant.
  const std::uint64_t sequence_;
  PayloadFetcher* const fetcher_ =
      nullptr;  // null: the thread that fetches reads, and the next two are not null
  Engine* const engine_ = nullptr;
  Reachability* const reachability_ = nullptr;
  const Reader::User user_ = Reader::kNoUser;  // for the fetcher

  std::atomic<std::chrono::milliseconds> patience_{};  // of the next reading by the thread that fetches
  mutable Mutex mutex_;
  PayloadFetcher::SharedWants wants_ LOCKSLEY_GUARDED_BY(mutex_);  // null: no fetcher was asked yet
  // Least recently used first.
  std::vector<SharedChunk> chunks_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
