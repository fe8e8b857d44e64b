// RETRY: failed jobs of a batch are queued again.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <asio/post.hpp>
#include <optional>
#include <span>
#include <utility>

#include "daemon/base/log_line.h"
#include "daemon/server/batches/batch_news.h"
#include "daemon/server/batches/due_timer.h"
#include "daemon/server/batches/free_aside.h"
#include "daemon/server/batches/intake.h"

namespace locksley::daemon {

bool Intake::must_read_failures(const BatchRecord& record, const ReadFailures* failures) {
  if (!record.lacks_failed_jobs()) return false;
  return failures == nullptr || failures->round != record.status().retry_rounds;
}

std::expected<std::uint64_t, Intake::Refusal> Intake::retry(BatchRecord& record,
                                                            std::optional<std::uint64_t> round,
                                                            const ReadFailures* failures) {
  // A RETRY that was executed already, and whose reply was lost.
  if (round && *round != record.status().retry_rounds) return 0;
  // It may be over for less time than this thread has taken to learn of it.
  if (record.is_over() && !parts_.admission.is_draining()) parts_.news.apply(record);
  const auto reservation = parts_.admission.reserve_retry(record, record.status().failed);
  if (!reservation) return std::unexpected(reservation.error());
  if (must_read_failures(record, failures)) return 0;
  if (record.lacks_failed_jobs()) {
    if (!failures->failed) return std::unexpected(fmt::format("STORE {}", failures->failed.error()));
    if (!record.set_failed_jobs(failures->failed->ranges, failures->failed->jobs)) {
      return std::unexpected("STORE the list of the failed jobs of the batch is damaged");
    }
  }
  if (!record.is_active) parts_.handler_batches.follow_handler(record);
  const auto [count, ranges] = record.begin_requeue();
  if (count == 0) return 0;
  constexpr std::size_t kFewRanges = 256;  // some 100 us
  if (ranges <= kFewRanges) {
    record.lane->queue_again(record.shared(), record.requeue());
  } else {
    requeue_aside(record.shared());
  }
  LogLine("failed jobs queued again")
      .about(record)
      .with("jobs", count)
      .write(*parts_.log, spdlog::level::debug);
  if (!record.is_active) {
    record.terms.has_no_deadline = true;
    parts_.retention.go_on(record, record.status());
    parts_.timer.arm();
  }
  parts_.stored.write_changes(record);
  return count;
}

void Intake::requeue_aside(const std::shared_ptr<BatchRecord>& record) {
  record->is_requeueing = true;
  const Reader::User user = parts_.registry.tenant_of(*record).number;
  parts_.aside.post(
      [this, record] {
        asio::post(parts_.io, [this, record, jobs = record->requeue()]() mutable {
          kIoThread.assert_held();
          queue_again(record, std::move(jobs));
        });
      },
      user);
}

void Intake::queue_again(const std::shared_ptr<BatchRecord>& record, std::vector<IndexRange> jobs) {
  auto left = std::make_shared<std::vector<IndexRange>>(std::move(jobs));
  parts_.slices.add([this, record, left = std::move(left)](Instant until) mutable {
    constexpr std::size_t kAtOnce = 512;  // some 20 us
    kIoThread.assert_held();
    do {
      const std::size_t count = std::min(kAtOnce, left->size());
      record->lane->queue_again(record, std::span(*left).last(count), left->size() - count);
      left->resize(left->size() - count);
    } while (!left->empty() && now() < until);
    if (!left->empty()) return false;
    record->is_requeueing = false;
    parts_.stored.write_changes(*record);
    record->wake_readers();
    const std::uint64_t bytes = left->capacity() * sizeof(IndexRange);
    free_aside(parts_.aside, std::move(left), bytes);
    return true;
  });
}

}  // namespace locksley::daemon
