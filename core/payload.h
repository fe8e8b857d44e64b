// Where a batch's payloads come from. The seam between the scheduler and whatever holds the bytes: blocks
// received from a socket, a range of integers, later the store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace locksley {

// The payloads of one batch, by job index. Owned by the batch; lives as long as it.
//
// Threads: fetch() is called by any number of workers at once, also while jobs are being added to an open
// batch; an implementation that grows must see to that itself. It may block (on a disk, say): a worker then
// waits with it. Errors: a payload that cannot be had throws std::exception; the message becomes the error of
// the job.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;

  // Fills `out` with the payloads of jobs first, first + 1, …; all of them must have been added. The views
  // live until the next fetch() with the same `scratch`, or as long as the batch where the source keeps the
  // bytes itself.
  virtual void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) = 0;

  // Bytes held in memory for the payloads, for limits and metrics; a hint while jobs are being added.
  virtual std::uint64_t memory_bytes() const = 0;
};

// Payloads of the jobs of a RANGE: the decimal of low + index, or a text with every "{}" replaced by it.
// Constant memory.
class RangePayloads final : public PayloadSource {
 public:
  explicit RangePayloads(std::int64_t low, std::optional<std::string> pattern = std::nullopt);
  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override;

 private:
  const std::int64_t low_;
  const std::optional<std::string> pattern_;
};

// Payloads given as strings; for programs that use the library without a network, and for tests.
class StringPayloads final : public PayloadSource {
 public:
  explicit StringPayloads(std::vector<std::string> payloads);
  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override;

 private:
  const std::vector<std::string> payloads_;
};

}  // namespace locksley
