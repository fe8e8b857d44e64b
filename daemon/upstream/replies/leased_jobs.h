// The jobs of a lease, as the reply to CLAIM brings them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/payload.h"

namespace locksley::daemon {

// The jobs of one lease. The indexes are those of the upstream's batch.
struct LeasedJobs {
  std::string lease;        // its name on the wire
  std::uint64_t batch = 0;  // the upstream's number of the batch, for RECLAIM
  std::string handler;
  IndexRange range;
  std::uint32_t attempt = 1;
  std::chrono::milliseconds timeout{0};  // of a job; 0: none
  std::string trace;
  std::string id;  // of the batch, for people and programs
  std::string tenant;
  std::string note;                         // of the last attempt of its only job; empty: none
  std::unique_ptr<PayloadSource> payloads;  // by index of the batch
};

// The payloads of a lease as they came: one copy of their bytes, and 8 bytes for each. Constant.
class LeasedPayloads final : public PayloadSource {
 public:
  struct Extent {
    std::uint32_t offset;
    std::uint32_t length;
  };
  // `bytes` are copied. `first`: the index of the first payload.
  LeasedPayloads(std::uint64_t first, std::string_view bytes, std::vector<Extent> extents);

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override { return size_ + extents_.capacity() * sizeof(Extent); }

 private:
  const std::uint64_t first_;
  const std::size_t size_;
  const std::unique_ptr<char[]> bytes_;
  const std::vector<Extent> extents_;
};

// Reads the reply to CLAIM, which must be whole, and neither an error nor null. The error says what
// is wrong with the reply. Elements beyond the known ones are ignored.
std::expected<LeasedJobs, std::string> read_leased_jobs(std::string_view reply);

}  // namespace locksley::daemon
