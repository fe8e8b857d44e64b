// Random rows for the tests of the store's format, and readers of bytes that the store did not
// write.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/rows/rows.h"
#include "tests/support/seed.h"
#include "tests/support/store_model.h"

namespace locksley::testing {

inline constexpr auto kLargest = std::numeric_limits<std::uint64_t>::max();
inline constexpr auto kLeastSigned = std::numeric_limits<std::int64_t>::min();
inline constexpr auto kLargestSigned = std::numeric_limits<std::int64_t>::max();

// Random rows of the store, with extremes more often than by chance. One thread.
class RandomRows {
 public:
  explicit RandomRows(std::uint64_t stream) : random_(stress_random(stream)) {}

  std::uint64_t below(std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_);
  }
  bool flag() { return below(2) != 0; }
  std::uint64_t number() {
    switch (below(4)) {
      case 0:
        return 0;
      case 1:
        return kLargest;
      default:
        return random_() >> below(64);
    }
  }
  std::int64_t signed_number() {
    switch (below(4)) {
      case 0:
        return kLeastSigned;
      case 1:
        return kLargestSigned;
      default:
        return static_cast<std::int64_t>(number());
    }
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }
  std::string text() {
    std::string text(below(8) == 0 ? below(70'000) : below(40), '\0');
    std::ranges::generate(text, [this] { return static_cast<char>(random_()); });
    return text;
  }
  JobStatus status() { return static_cast<JobStatus>(below(kJobStatuses)); }

  daemon::AcceptedRow accepted() {
    daemon::AcceptedRow row;
    row.handler = text();
    row.options.id = text();
    row.options.name = text();
    row.options.tenant = text();
    row.options.trace = text();
    row.options.weight = number32();
    row.options.slots = number32();
    row.options.max_fails = number();
    row.options.timeout = std::chrono::milliseconds(signed_number());
    row.options.keep = static_cast<Keep>(below(3));
    row.id_is_chosen = flag();
    row.is_streamed = flag();
    row.submitted_at = signed_number();
    row.deadline_at = signed_number();
    row.retain_ms = signed_number();
    row.jobs = number();
    row.payload_bytes = number();
    if (flag())
      row.range = {.low = signed_number(), .payload = flag() ? std::optional(text()) : std::nullopt};
    if (row.range && !row.range->payload) row.range->is_apart = flag();
    if (flag()) row.digest = {number(), number()};
    if (flag()) row.options.retries = number32();
    if (flag()) row.start_at = signed_number();
    for (std::uint64_t left = flag() ? below(20) : 0; left > 0; --left) {
      row.after.push_back({number(), text(), flag()});
    }
    if (flag()) row.options.customer = text();
    return row;
  }
  daemon::ChangesRow changes() {
    daemon::ChangesRow row;
    row.jobs = number();
    row.payload_bytes = number();
    row.is_closed = flag();
    row.is_paused = flag();
    row.is_cancelled = flag();
    row.stop_reason = text();
    row.weight = number32();
    row.attempt = number32();
    row.has_no_deadline = flag();
    row.is_released = flag();
    if (flag()) row.satisfied = text();
    if (flag()) row.discarded_rows = 1 + number() / 2;
    if (row.discarded_rows != 0) row.discarded_bytes = number();
    if (flag()) row.slots = flag() ? 0 : number32();
    return row;
  }
  BatchStep step() {
    BatchStep step;
    step.ended = ranges(below(20));
    for (std::uint64_t& count : step.totals.by_status) count = number();
    step.row_count = number();
    step.result_bytes = number();
    step.started_at = signed_number();
    step.finished_at = signed_number();
    step.cancelled = flag();
    step.stop_reason = text();
    if (flag()) step.failed = ranges();
    if (flag()) step.requeued = ranges();
    for (std::uint64_t left = flag() ? below(20) : 0; left > 0; --left) {
      step.job_attempts.push_back({ranges(1).front(), {number32(), number32()}});
    }
    if (flag()) step.retried = number();
    if (flag()) step.superseded = number();
    if (flag()) step.retry_rounds = number();
    if (flag()) step.superseded_jobs = {{ranges(1).front(), number()}};
    if (flag()) step.notes = {{number(), text()}};
    return step;
  }
  std::vector<IndexRange> ranges(std::uint64_t count = 3) {
    std::vector<IndexRange> ranges;
    for (; count > 0; --count) {
      const std::uint64_t low = number();
      ranges.push_back({low, low == kLargest ? low : low + number() % (kLargest - low)});
    }
    return ranges;
  }
  std::vector<StoredRow> rows() {
    std::vector<StoredRow> rows;
    std::uint64_t index = number();
    for (std::uint64_t left = 1 + below(30); left > 0; --left) {
      rows.push_back({index, status(), text()});
      index = below(4) == 0 ? number() : index + 1;
    }
    return rows;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> texts(below(50));
    std::ranges::generate(texts, [this] { return text(); });
    return texts;
  }

 private:
  std::mt19937_64 random_;
};

// Bytes that end where their memory ends, so that a sanitizer detects a read beyond it.
class Bounded {
 public:
  explicit Bounded(std::string_view bytes) : bytes_(new char[bytes.size()]), size_(bytes.size()) {
    std::ranges::copy(bytes, bytes_.get());
  }
  operator std::string_view() const { return {bytes_.get(), size_}; }  // as any text that is read

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

// What daemon::visit_rows() says of these bytes, and the rows that it shows.
struct Visit {
  std::optional<daemon::VisitedRows> visited;
  std::vector<StoredRow> rows;
};
inline Visit visit(std::string_view bytes, std::uint64_t skip, std::uint64_t most,
                   std::uint64_t refuse_from = kLargest) {
  Visit result;
  result.visited = daemon::visit_rows(bytes, skip, most, [&](const ResultRow& row) {
    if (result.rows.size() >= refuse_from) return false;
    result.rows.push_back({row.index, row.status, std::string(row.output)});
    return true;
  });
  return result;
}

}  // namespace locksley::testing
