// Payloads that OPEN and ADD stream in.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/index_range.h"
#include "core/sync/mutex.h"
#include "daemon/server/payloads/batch_payloads.h"

namespace locksley::daemon {

// The payloads of a batch that is streamed in by OPEN and ADD. The payloads of a large ADD stay in
// the blocks in which they were received. Those of small ADDs are copied into common blocks, so
// that ten million ADDs of one short payload cost a few bytes each instead of a block each.
// Payloads for which memory has no room are in the store alone.
//
// The I/O thread adds and, once the batch is over, releases; any number of workers fetch meanwhile
// (one shared lock for each fetch, and one fetch serves many jobs). Bytes in memory never move, so
// views live until release() or keep_only(). A fetch from the store may block, and throws as the
// store's reads do.
class StreamedPayloads final : public BatchPayloads {
 public:
  // An ADD of at most this many bytes, and payloads, is copied. Guess: a quarter of a block; some
  // microseconds.
  static constexpr std::size_t kCopiedBytes = 4 * 1024;
  static constexpr std::size_t kMostCopied = 1024;
  static constexpr std::size_t kSegmentBytes = 64 * 1024;  // of copied payloads; guess

  // `stored`: all payloads of the batch that are in the store; null: the batch is not stored. The
  // first `restored` payloads are there already.
  explicit StreamedPayloads(std::unique_ptr<PayloadSource> stored = nullptr, std::uint64_t restored = 0)
      : stored_(std::move(stored)) {
    if (restored != 0) add_stored(restored);
  }

  void add(const std::shared_ptr<const proto::ArgumentList>& payloads, Place place) override;
  void withdraw(std::uint64_t count) override;
  // O(ADDs in memory).
  Released keep_only(std::span<const IndexRange> wanted) override;
  Released release(FailedJobs failed_jobs, Repetition repetition) override;
  std::optional<HeldPayload> in_memory(std::uint64_t index) override;
  // Never: it is not known whether another OPEN would send the same.
  bool is_same(const proto::ArgumentList&) const override { return false; }

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  // For tests. How many parts the calls above look at.
  std::size_t parts() const {
    const ReaderLock lock(mutex_);
    return segments_.size();
  }
  std::uint64_t memory_bytes() const override {
    return memory_bytes_.load() + (stored_ != nullptr ? stored_->memory_bytes() : 0);
  }

 private:
  // Payloads first, first + 1, … up to the next segment's first.
  struct Segment {
    std::uint64_t first;
    // The payloads are in `received`; or in `bytes`, of kSegmentBytes, filled up to `used`; or, if
    // both are null, in the store (or freed).
    std::shared_ptr<const proto::ArgumentList> received;
    std::unique_ptr<char[]> bytes;
    std::size_t used = 0;
    std::vector<std::uint32_t> ends;  // of each payload in `bytes`

    bool is_in_memory() const { return received != nullptr || bytes != nullptr; }
    std::uint64_t memory_bytes() const;
  };

  using Segments = std::deque<Segment>;  // no two that are not in memory follow each other
  // False if one of them is not in memory.
  bool fetch_from_memory(std::uint64_t first, std::span<std::string_view> out) const
      LOCKSLEY_EXCLUDES(mutex_);
  void add_stored(std::uint64_t count) LOCKSLEY_EXCLUDES(mutex_);
  void copy(const proto::ArgumentList& payloads) LOCKSLEY_REQUIRES(mutex_);
  Segments::const_iterator segment_of(std::uint64_t index) const LOCKSLEY_REQUIRES_SHARED(mutex_);

  const std::unique_ptr<PayloadSource> stored_;
  mutable SharedMutex mutex_;
  Segments segments_ LOCKSLEY_GUARDED_BY(mutex_);
  std::uint64_t count_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> memory_bytes_{0};  // written by the I/O thread, read by any thread: a hint
};

}  // namespace locksley::daemon
