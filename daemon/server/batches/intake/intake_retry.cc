// RETRY: failed jobs of a batch are queued again.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "core/batch/batch_failures.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/batches/intake/intake.h"
#include "daemon/server/batches/news/batch_news.h"
#include "daemon/server/batches/news/due_timer.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/server/batches/stored/store_reads.h"
#include "daemon/server/records/refusals.h"

namespace locksley::daemon {

bool Intake::must_read_failures(BatchRecord& record, const ReadFailures* failures) {
  if (!record.failures().lacks_list()) return false;
  return failures == nullptr || failures->round != record.status().retry_rounds;
}

Intake::Count Intake::retry(BatchRecord& record, Account& payer, const RetryDemand& demand,
                            const ReadFailures* failures) {
  // A repeated RETRY: the first one was executed, and its reply was lost.
  if (demand.round && *demand.round != record.status().retry_rounds) return 0;
  // This thread may not have applied the batch's end yet.
  if (record.is_over() && !parts_.admission.is_draining()) parts_.news.apply(record);
  if (record.has_lost_payloads) {
    return std::unexpected(fmt::format(
        "ERR the payloads of the batch '{}', which only memory had, have made room for other jobs: nothing "
        "was queued again",
        record.id()));
  }
  const bool are_some = !demand.indexes.empty();
  const auto reservation =
      parts_.admission.reserve_retry(record, are_some ? demand.indexes.size() : record.status().failed);
  if (!reservation) return std::unexpected(reservation.error());
  if (must_read_failures(record, failures)) return 0;
  if (!record.failures().lacks_list()) return retry_listed(record, payer, demand.indexes);
  if (!failures->failed) return std::unexpected(fmt::format("STORE {}", failures->failed.error()));
  if (!record.failures().set_list(failures->failed->ranges, failures->failed->jobs)) {
    return std::unexpected("STORE the list of the failed jobs of the batch is damaged");
  }
  const Count queued = retry_listed(record, payer, demand.indexes);
  // Otherwise the record of a batch that is over would keep a list of any length, for which no
  // account is charged.
  if (!record.is_active) record.failures().leave_out_list();
  return queued;
}

Intake::Count Intake::retry_listed(BatchRecord& record, Account& payer,
                                   std::span<const std::uint64_t> indexes) {
  if (!indexes.empty()) return retry_some(record, payer, indexes);
  if (!record.is_active) parts_.handler_batches.follow_handler(record);
  return queue_again(record, payer, record.failures().begin_requeue());
}

Intake::Count Intake::retry_some(BatchRecord& record, Account& payer,
                                 std::span<const std::uint64_t> indexes) {
  using Answer = Batch::Failures::RequeueCheck::Answer;
  std::vector<std::uint64_t> ascending(indexes.begin(), indexes.end());
  std::ranges::sort(ascending);
  const auto twice = std::ranges::unique(ascending);
  ascending.erase(twice.begin(), twice.end());
  if (const std::uint64_t there = record.status().jobs; ascending.back() >= there) {
    return std::unexpected(no_such_job(record.id(), there) + ": nothing was queued again");
  }
  std::vector<IndexRange> jobs;
  for (const std::uint64_t index : ascending) append_range(jobs, {index, index + 1});
  const Batch::Failures::RequeueCheck checked = record.failures().check_requeue(jobs);
  switch (checked.answer) {
    case Answer::kNotFailed:
      return std::unexpected(fmt::format(
          "ERR job {} of the batch '{}' has not failed: nothing was queued again", checked.job, record.id()));
    case Answer::kTooScattered:
      return std::unexpected(fmt::format(
          "ERR the failed jobs of the batch '{}' lie in more than {} ranges, or more than {} were "
          "queued again one by one: use RETRY without indexes, for all of them",
          record.id(), Batch::Failures::kMostScattered, Batch::Failures::kMostSuperseded / 2));
    case Answer::kYes:
      break;
  }
  if (!record.is_active) parts_.handler_batches.follow_handler(record);
  return queue_again(record, payer, record.failures().begin_requeue(jobs));
}

Intake::Count Intake::queue_again(BatchRecord& record, Account& payer, Batch::Failures::Requeue requeue) {
  const auto [count, ranges] = requeue;
  if (count == 0) return 0;
  constexpr std::size_t kFewRanges = 256;  // some 100 us
  // If the batch was over, the jobs that stay failed are written, too; they may lie in as many
  // ranges.
  constexpr std::uint64_t kFewFailed = 4096;
  if (ranges <= kFewRanges && record.status().failed <= kFewFailed) {
    record.lane->queue_again(record.shared(), record.failures().requeue());
  } else {
    requeue_aside(record.shared(), payer);
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
  parts_.stored.write_changes(record, payer);
  return count;
}

void Intake::requeue_aside(const std::shared_ptr<BatchRecord>& record, Account& payer) {
  ++record->requeues;
  const Reader::User user = parts_.registry.tenant_of(*record).number;
  parts_.aside.post(
      [this, record, &payer, &mailbox = IoMailbox::of(parts_.io)] {
        mailbox.post([this, record, &payer, jobs = record->failures().requeue()]() mutable {
          kIoThread.assert_held();
          put_into_ring(record, payer, std::move(jobs));
        });
      },
      user);
}

void Intake::put_into_ring(const std::shared_ptr<BatchRecord>& record, Account& payer,
                           std::vector<IndexRange> jobs) {
  auto left = std::make_shared<std::vector<IndexRange>>(std::move(jobs));
  const std::uint64_t ranges = left->size();
  auto put_some = [this, record, &payer, ranges, left = std::move(left)](Instant until) mutable {
    constexpr std::size_t kAtOnce = 512;  // some 20 us
    kIoThread.assert_held();
    do {
      const std::size_t count = std::min(kAtOnce, left->size());
      record->lane->queue_again(record, std::span(*left).last(count), left->size() - count);
      left->resize(left->size() - count);
    } while (!left->empty() && now() < until);
    if (!left->empty()) return false;
    // Put after the retry's step, so that a reply which waits for this write also waits for the
    // step.
    parts_.stored.write_changes(*record, payer, ranges);
    requeue_ended(*record);
    const std::uint64_t bytes = left->capacity() * sizeof(IndexRange);
    free_aside(parts_.aside, std::move(left), bytes, parts_.registry.tenant_of(*record).number);
    return true;
  };
  parts_.slices.add(std::move(put_some), record->line);
}

void Intake::requeue_ended(BatchRecord& record) {
  if (--record.requeues != 0) return;
  record.wake_readers(parts_.slices);
  const auto waiting = after_requeues_.extract(&record);
  if (waiting.empty()) return;
  for (auto& then : waiting.mapped()) {
    auto call = [then = std::move(then)](Instant) {
      then();
      return true;
    };
    parts_.slices.add(std::move(call), record.line);
  }
}

void Intake::after_requeue(BatchRecord& record, std::function<void()> then) {
  if (!record.is_requeueing()) return then();
  after_requeues_[&record].push_back(std::move(then));
}

}  // namespace locksley::daemon
