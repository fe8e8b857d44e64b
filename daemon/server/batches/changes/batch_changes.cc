#include "daemon/server/batches/changes/batch_changes.h"

#include <spdlog/logger.h>

#include <memory>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/store/read/reader.h"

namespace locksley::daemon {

BatchChanges::BatchChanges(StoredBatches& stored, Reader& aside, std::shared_ptr<spdlog::logger> log)
    : stored_(stored), aside_(aside), log_(std::move(log)) {}

std::uint64_t BatchChanges::cancel(BatchRecord& record, Account& payer, std::string reason,
                                   RunningJobs running) {
  LogLine("batch is told to stop").about(record).with("reason", reason).write(*log_, spdlog::level::debug);
  if (!record.is_stopping()) record.terms.stop_reason = reason;
  Lane::Cancelled cancelled = record.lane->begin_cancel(record, std::move(reason), running);
  const std::uint64_t count = cancelled.will_not_run;
  if (!Lane::drop_some(record, cancelled)) drop_rest(record.shared(), std::move(cancelled));
  stored_.write_changes(record, payer);
  return count;
}

void BatchChanges::drop_rest(std::shared_ptr<BatchRecord> record, Lane::Cancelled rest) {
  const auto tenant = tenant_of_line(record->line);
  work_aside(aside_, tenant ? Reader::User{*tenant} : Reader::kNoUser,
             [record = std::move(record), rest = std::move(rest)]() mutable {
               return Lane::drop_some(*record, rest);
             });
}

void BatchChanges::set_weight(BatchRecord& record, Account& payer, std::uint32_t weight) {
  record.lane->set_weight(record, weight);
  stored_.write_changes(record, payer);
}

void BatchChanges::set_slots(BatchRecord& record, Account& payer, std::uint32_t slots) {
  record.lane->set_slots(record, slots);
  stored_.write_changes(record, payer);
}

void BatchChanges::pause(BatchRecord& record, Account& payer) {
  record.lane->pause(record);
  stored_.write_changes(record, payer);
}

void BatchChanges::resume(BatchRecord& record, Account& payer) {
  record.lane->resume(record);
  stored_.write_changes(record, payer);
}

std::uint64_t BatchChanges::close(BatchRecord& record, Account& payer) {
  if (record.status().state != BatchState::kOpen) return record.terms.jobs;
  record.terms.is_closed = true;
  if (record.is_stored()) {
    stored_.close(record, payer);
  } else {
    record.lane->close(record);
  }
  return record.terms.jobs;
}

void BatchChanges::close_abandoned(BatchRecord& record, Account& payer) {
  if (record.status().state != BatchState::kOpen) return;
  if (closed_lines_.open(now())) {
    LogLine("open batch closed: its connection has gone, and limits.open_timeout passed")
        .about(record)
        .with("unlogged", closed_lines_.held_back())
        .write(*log_, spdlog::level::info);
  }
  close(record, payer);
}

Ticket BatchChanges::ticket(BatchRecord& record, Account& payer) {
  return stored_.ticket_of_changes(record, payer);
}

}  // namespace locksley::daemon
