#include "daemon/upstream/replies/leased_jobs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "daemon/upstream/replies/reply_cursor.h"

namespace locksley::daemon {
namespace {

std::unique_ptr<char[]> copy_of(std::string_view bytes) {
  auto copy = std::make_unique_for_overwrite<char[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  return copy;
}

// Reads the payloads at the cursor, for `jobs`.
std::unique_ptr<PayloadSource> read_payloads(ReplyCursor& cursor, const LeasedJobs& jobs,
                                             std::uint64_t count) {
  const std::string_view bytes = cursor.rest();
  std::vector<LeasedPayloads::Extent> extents(count);
  for (LeasedPayloads::Extent& extent : extents) {
    const std::string_view payload = cursor.text();
    if (cursor.is_bad()) return nullptr;
    extent = {payload.empty() ? 0U : static_cast<std::uint32_t>(payload.data() - bytes.data()),
              static_cast<std::uint32_t>(payload.size())};
  }
  const std::size_t size = bytes.size() - cursor.rest().size();
  return std::make_unique<LeasedPayloads>(jobs.range.low, bytes.substr(0, size), std::move(extents));
}

// Reads a range: the value of the first index, and a template or null.
std::unique_ptr<PayloadSource> read_range(ReplyCursor& cursor, const LeasedJobs& jobs) {
  if (cursor.array() < 2) return nullptr;
  const auto first = static_cast<std::uint64_t>(cursor.integer());
  std::optional<std::string> pattern;
  if (cursor.is_null()) {
    cursor.skip();
  } else {
    pattern = cursor.text();
  }
  // The value of index 0. It wraps around as the sum in RangePayloads does.
  return std::make_unique<RangePayloads>(static_cast<std::int64_t>(first - jobs.range.low),
                                         std::move(pattern));
}

}  // namespace

LeasedPayloads::LeasedPayloads(std::uint64_t first, std::string_view bytes, std::vector<Extent> extents)
    : first_(first), size_(bytes.size()), bytes_(copy_of(bytes)), extents_(std::move(extents)) {}

std::size_t LeasedPayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) {
  const Extent* extent = extents_.data() + (first - first_);
  for (std::string_view& payload : out) {
    payload = {bytes_.get() + extent->offset, extent->length};
    ++extent;
  }
  return out.size();
}

std::expected<LeasedJobs, std::string> read_leased_jobs(std::string_view reply) {
  constexpr std::uint64_t kElements = 13;  // up to `range`
  const auto bad = [](std::string_view what) {
    return std::unexpected("the reply to CLAIM: " + std::string(what));
  };
  ReplyCursor cursor(reply);
  const std::uint64_t elements = cursor.array();
  if (elements < kElements) return bad("too few elements");
  LeasedJobs jobs;
  jobs.lease = cursor.text();
  jobs.batch = cursor.count();
  jobs.handler = cursor.text();
  jobs.range.low = cursor.count();
  const std::uint64_t count = cursor.count();
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (count == 0 || count > kMost - jobs.range.low) return bad("a lease without jobs");
  jobs.range.high = jobs.range.low + count;
  const std::uint64_t attempt = cursor.count();
  if (attempt > std::numeric_limits<std::uint32_t>::max()) return bad("the attempt");
  jobs.attempt = static_cast<std::uint32_t>(attempt);
  // A bound, so that it can be added to an instant. No daemon asks for more than some years.
  constexpr std::chrono::milliseconds kMostTimeout = std::chrono::years(100);
  const std::uint64_t timeout = cursor.count();
  if (timeout > static_cast<std::uint64_t>(kMostTimeout.count())) return bad("the time-out");
  jobs.timeout = std::chrono::milliseconds(timeout);
  jobs.trace = cursor.text();
  const std::uint64_t payloads = cursor.array();
  if (cursor.is_bad() || (payloads != 0 && payloads != count))
    return bad("as many payloads as jobs, or none");
  if (payloads != 0) jobs.payloads = read_payloads(cursor, jobs, payloads);
  jobs.id = cursor.text();
  jobs.tenant = cursor.text();
  cursor.skip();  // names of slots
  if (payloads == 0 && !cursor.is_null()) {
    jobs.payloads = read_range(cursor, jobs);
  } else {
    cursor.skip();
  }
  if (elements > kElements && !cursor.is_null()) jobs.note = cursor.text();
  if (cursor.is_bad() || jobs.payloads == nullptr) return bad("its elements are not those of a lease");
  return jobs;
}

}  // namespace locksley::daemon
