// The payloads of a batch: the interface between the scheduler and the code that holds the bytes
// (blocks that a socket received, a range of integers, a store).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/shared_text.h"

namespace locksley {

class RangePayloads;

// The payloads of one batch, by job index. Owned by the batch; lives as long as the batch.
// Any number of executors call fetch() at once, also while jobs are being added to an open batch: a
// source that grows must synchronise that itself.
// fetch() may block, for example on a disk; the executor then waits, and so do the other batches
// that it serves. So a source that may have to wait for long, as for another machine, returns 0
// instead: not now. Once its payloads have come, the program calls Lane::payloads_arrived().
// fetch() throws std::exception if a payload can never be read; the message becomes the error of
// the job.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;

  // Sets the elements of `out`, which is not empty, to the payloads of jobs first, first + 1, …;
  // all of these jobs must have been added. Returns how many elements it has set: all, unless
  // `scratch` would hold more than kScratchBytes. Then it sets as many as fit; the first one
  // always, whatever its length. 0: the payloads cannot be read now, but can later; the jobs go
  // back, and their batch pauses for a while (Backoff::kNoPayloads). The views are valid until the
  // next fetch() with the same `scratch`; as long as the batch, if the source keeps the bytes
  // itself.
  static constexpr std::size_t kScratchBytes = 1024 * 1024;  // guess: less than a worker's other memory
  virtual std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) = 0;

  // For payloads that are computed (RANGE): the range that they are computed from. Null for
  // payloads that are stored, and while the pattern of the range cannot be read. May block as
  // fetch() does.
  virtual const RangePayloads* range() const { return nullptr; }
  // Bytes of payloads in memory, for limits and metrics. A hint while jobs are being added.
  virtual std::uint64_t memory_bytes() const = 0;
  // Frees cached payloads, which fetch() can read again. Any thread may call it, also while others
  // fetch.
  virtual void drop_cached() {}
};

// The payloads of RANGE: the decimal of low + index, or a text in which each "{}" is replaced by
// it. Constant memory. Immutable: any thread. Only fetch() can fail, as PayloadSource says, when it
// allocates. `low` + the index of each job fits into 64 bits: the caller checks that.
class RangePayloads final : public PayloadSource {
 public:
  explicit RangePayloads(std::int64_t low, SharedText pattern = {});
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override;
  const RangePayloads* range() const override { return this; }
  std::int64_t low() const { return low_; }
  const SharedText& pattern() const { return pattern_; }
  // Computes one payload part by part, for a thread that must not work for long. A call replaces
  // "{}" in the next `most` bytes of the pattern, beginning with byte `from`, appends the result to
  // `payload`, and moves `from` on. `most`: at least 2. Returns whether the payload is complete.
  bool append_part(std::uint64_t index, std::size_t& from, std::size_t most, std::string& payload) const;

 private:
  const std::int64_t low_;
  const SharedText pattern_;
};

// Payloads given as strings; for programs that use the library without a network, and for tests.
// Immutable: any thread. Nothing blocks or fails.
class StringPayloads final : public PayloadSource {
 public:
  explicit StringPayloads(std::vector<std::string> payloads);
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override;

 private:
  const std::vector<std::string> payloads_;
};

}  // namespace locksley
