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
#include <vector>

#include "core/payload.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// The payloads of a batch that is streamed in by OPEN and ADD: those of a large ADD stay in the blocks they
// were received in; those of small ones are copied together, so that ten million ADDs of one short payload
// cost a few bytes each and not a block each.
//
// Owned by its batch. The I/O thread adds and, once the batch is over, releases; any number of workers fetch
// meanwhile (a shared lock for each fetch, and one fetch is for many jobs). Bytes never move, so views live
// until release().
class StreamedPayloads final : public PayloadSource {
 public:
  static constexpr std::size_t kCopiedBytes =
      4 * 1024;  // an ADD up to this is copied; guess: a quarter of a block
  static constexpr std::size_t kPieceBytes = 64 * 1024;  // of copied payloads; guess

  StreamedPayloads() = default;

  // I/O thread. Before the lane hears of the jobs.
  void add(proto::ArgumentList payloads);
  // I/O thread, once the batch is over: frees them.
  void release();

  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override { return memory_bytes_.load(); }

 private:
  // Payloads first, first + 1, … up to the next piece's first.
  struct Piece {
    std::uint64_t first;
    proto::ArgumentList received;   // these, or else:
    std::unique_ptr<char[]> bytes;  // kPieceBytes, filled up to `used`
    std::size_t used = 0;
    std::vector<std::uint32_t> ends;  // of each payload in `bytes`
  };

  // [needs mutex_, exclusively]
  void copy(const proto::ArgumentList& payloads);

  mutable std::shared_mutex mutex_;
  std::deque<Piece> pieces_;                    // guarded by mutex_
  std::uint64_t count_ = 0;                     // guarded by mutex_
  std::atomic<std::uint64_t> memory_bytes_{0};  // written by the I/O thread, read by anyone: a hint
};

}  // namespace locksley::daemon
