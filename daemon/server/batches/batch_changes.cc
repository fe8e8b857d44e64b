#include "daemon/server/batches/batch_changes.h"

#include <spdlog/logger.h>

#include <utility>

#include "daemon/base/log_line.h"
#include "daemon/server/batches/stored_batches.h"

namespace locksley::daemon {

BatchChanges::BatchChanges(StoredBatches& stored, std::shared_ptr<spdlog::logger> log)
    : stored_(stored), log_(std::move(log)) {}

std::uint64_t BatchChanges::cancel(BatchRecord& record, std::string reason) {
  LogLine("batch is told to stop").about(record).with("reason", reason).write(*log_, spdlog::level::debug);
  record.terms.stop_reason = reason;
  const std::uint64_t count = record.lane->cancel(record, std::move(reason));
  stored_.write_changes(record);
  return count;
}

void BatchChanges::set_weight(BatchRecord& record, std::uint32_t weight) {
  record.lane->set_weight(record, weight);
  stored_.write_changes(record);
}

void BatchChanges::pause(BatchRecord& record) {
  record.lane->pause(record);
  stored_.write_changes(record);
}

void BatchChanges::resume(BatchRecord& record) {
  record.lane->resume(record);
  stored_.write_changes(record);
}

std::uint64_t BatchChanges::close(BatchRecord& record) {
  if (record.status().state != BatchState::kOpen) return record.terms.jobs;
  record.terms.is_closed = true;
  if (record.is_stored()) {
    stored_.close(record);
  } else {
    record.lane->close(record);
  }
  return record.terms.jobs;
}

}  // namespace locksley::daemon
