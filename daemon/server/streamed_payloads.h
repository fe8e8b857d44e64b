#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/index_range.h"
#include "core/payload.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// The payloads of a batch that is streamed in by OPEN and ADD: those of a large ADD stay in the blocks they
// were received in; those of small ones are copied together, so that ten million ADDs of one short payload
// cost a few bytes each and not a block each; those that the memory has no room for are in the store alone.
//
// Owned by its batch. The I/O thread adds and, once the batch is over, releases; any number of workers fetch
// meanwhile (a shared lock for each fetch, and one fetch is for many jobs). Bytes in memory never move, so
// views live until release(). A fetch from the store may block, and throws what that throws.
class StreamedPayloads final : public PayloadSource {
 public:
  static constexpr std::size_t kCopiedBytes =
      4 * 1024;  // an ADD up to this is copied; guess: a quarter of a block
  static constexpr std::size_t kPieceBytes = 64 * 1024;  // of copied payloads; guess

  // `stored`: all payloads of the batch, as far as they are in the store; null: it has no store.
  explicit StreamedPayloads(std::unique_ptr<PayloadSource> stored = nullptr) : stored_(std::move(stored)) {}

  // I/O thread, all three. Before the lane hears of the jobs: payloads to be kept in memory, or a number of
  // those that are in the store, or will be by then.
  void add(std::shared_ptr<const proto::ArgumentList> payloads);
  void add_stored(std::uint64_t count);
  // The last `count`, which no worker has heard of, go again.
  void withdraw(std::uint64_t count);
  // Once the batch is over: frees them; or frees those in memory, since the store has all.
  void release();
  void leave_to_store();
  // While more come, and no worker has any of those that are there: frees what has none of `wanted`
  // (ascending) with it.
  void keep_only(std::span<const IndexRange> wanted);

  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override { return memory_bytes_.load(); }

 private:
  // Payloads first, first + 1, … up to the next piece's first.
  struct Piece {
    std::uint64_t first;
    std::shared_ptr<const proto::ArgumentList> received;  // these, or:
    std::unique_ptr<char[]> bytes;  // kPieceBytes, filled up to `used`; or neither: stored
    std::size_t used = 0;
    std::vector<std::uint32_t> ends;  // of each payload in `bytes`

    // Or freed.
    bool is_stored() const { return received == nullptr && bytes == nullptr; }
    std::uint64_t memory_bytes() const;
  };

  // [needs mutex_, exclusively]
  void copy(const proto::ArgumentList& payloads);
  // [needs mutex_]
  std::deque<Piece>::const_iterator piece_of(std::uint64_t index) const;

  const std::unique_ptr<PayloadSource> stored_;
  mutable std::shared_mutex mutex_;
  std::deque<Piece> pieces_;                    // guarded by mutex_
  std::uint64_t count_ = 0;                     // guarded by mutex_
  std::atomic<std::uint64_t> memory_bytes_{0};  // written by the I/O thread, read by anyone: a hint
};

}  // namespace locksley::daemon
