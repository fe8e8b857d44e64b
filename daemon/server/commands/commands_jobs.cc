// Commands that show one job, or the jobs that run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/batch/job_facts.h"
#include "core/lane/lane_view.h"
#include "daemon/base/time.h"
#include "daemon/server/commands/block_deadline.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/members.h"
#include "daemon/server/commands/named_batch.h"
#include "daemon/server/records/refusals.h"
#include "daemon/server/session/read_memory.h"
#include "daemon/server/session/reply_in_slices.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/job_view.h"
#include "daemon/server/state/running_view.h"
#include "daemon/server/state/server_state.h"
#include "proto/output_buffer.h"
#include "proto/read_options.h"

namespace locksley::daemon {

namespace {

// Watches a job until this object is destroyed.
class LogWatch {
 public:
  LogWatch(ShownJobs& jobs, const Batch& batch, std::uint64_t index)
      : jobs_(jobs), watch_(jobs.watch(batch, index)) {}
  ~LogWatch() { jobs_.unwatch(watch_); }
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;

  bool has_news() const { return !jobs_.is_watching(watch_); }

 private:
  ShownJobs& jobs_;
  const ShownJobs::Watch watch_;
};

void write_log(Session& session, std::uint64_t next, std::string_view bytes) {
  proto::ReplyWriter reply = session.reply();
  reply.array(2);
  reply.integer(static_cast<std::int64_t>(next));
  reply.bulk(bytes);
}

// Replies with the log of a job that has ended, or with an error, and returns true. False: the job
// has no row.
bool write_kept_log(Session& session, const FoundJob& found, std::uint64_t from) {
  if (!found.error.empty()) {
    session.fail("STORE " + found.error);
    return true;
  }
  if (!found.row) return false;
  const auto facts = decode_facts(found.row->facts);
  if (!facts) {
    write_log(session, 0, {});
    return true;
  }
  const std::uint64_t begin = facts->log_end - facts->log.size();
  // The client has read from an earlier attempt, which wrote more.
  if (from > facts->log_end) from = 0;
  write_log(session, facts->log_end, facts->log.substr(std::max(from, begin) - begin));
  return true;
}

}  // namespace

Coroutine<void> job_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_job(command.arguments);
  const std::shared_ptr<BatchRecord> record = named_batch(session, parsed);
  if (record == nullptr) co_return;
  ReadMemory memory(session.memory());
  const std::weak_ptr<const void> client = memory.begin_read();
  const auto look =
      JobLookup::begin(session.state(), record, parsed->index, client, memory.on_read<FoundJob>());
  command = {};
  if (!look) {
    session.fail(look.error());
    co_return;
  }
  const auto is_done = [&look](const BatchRecord&) { return look->is_done(); };
  if (!co_await session.waits().await_rows(record, is_done)) co_return;
  const auto job = look->end();
  if (!job) {
    session.fail(job.error());
    co_return;
  }
  const std::uint64_t most = session.state().config().limits.output_buffer.count;
  const std::uint64_t bytes = job->output.value_or("").size() + job->payload.value_or("").size();
  if (bytes > most) {
    session.fail(fmt::format(
        "TOOBIG the job's payload and output have {} bytes, and limits.output_buffer is {}", bytes, most));
    co_return;
  }
  auto views = proto::OutputBuffer::of_views();
  proto::ReplyWriter reply =
      bytes < kLargeReply ? session.reply() : proto::ReplyWriter(views, session.info().protocol);
  reply.map(kJobMembers);
  visit_members(*job, Members(reply));
  if (!views.empty()) co_await reply_in_slices(session, std::move(views));
}

Coroutine<void> log_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_log(command.arguments);
  const std::shared_ptr<BatchRecord> record = named_batch(session, parsed);
  if (record == nullptr) co_return;
  command = {};
  const std::uint64_t index = parsed->index;
  if (const std::uint64_t jobs = record->status().jobs; index >= jobs) {
    session.fail(no_such_job(record->id(), jobs));
    co_return;
  }
  const Instant deadline = deadline_of_block(session, parsed->block);
  while (true) {
    const Lane* const lane = record->lane;
    ShownJobs& running = record->lane->running();
    const LogWatch watch(running, *record, index);
    // An executor shows a job for a moment after its end.
    auto log = record->is_over() ? std::nullopt : running.read_log(*record, index, parsed->from);
    if (log && log->end < parsed->from) log = running.read_log(*record, index, 0);  // another attempt
    if (log && (!log->bytes.empty() || now() >= deadline)) {
      write_log(session, log->end, log->bytes);
      co_return;
    }
    if (!log) {
      const bool is_queued =
          !record->is_over() && record->lane->view().is_queued(*record, index).value_or(false);
      if (!is_queued) {
        ReadMemory memory(session.memory());
        const std::weak_ptr<const void> client = memory.begin_read();
        const auto found =
            session.state().batches().reads().find_facts(record, index, client, memory.on_read<FoundJob>());
        const auto is_found = [&found](const BatchRecord&) { return found->is_done; };
        if (!co_await session.waits().await_rows(record, is_found)) co_return;
        if (write_kept_log(session, *found, parsed->from)) co_return;
      }
      if (now() >= deadline || record->is_over()) {
        write_log(session, 0, {});
        co_return;
      }
    }
    const auto has_news = [&watch, lane](const BatchRecord& batch) {
      kIoThread.assert_held();
      return watch.has_news() || batch.is_over() || batch.lane != lane;
    };
    const CommandWaits::Awaited awaited =
        co_await session.waits().await_batch(record, has_news, deadline, BatchRecord::kLogBytes);
    if (awaited == CommandWaits::Awaited::kGone) co_return;
  }
}

Coroutine<void> running_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_running(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  std::shared_ptr<BatchRecord> record;
  if (parsed->id) {
    BatchRecord* const named = batch_of(session, *parsed->id);
    if (named == nullptr) co_return;
    record = named->shared();
  }
  RunningList list(session.state(), session.user(), record.get(), parsed->count);
  command = {};
  Slices::Spending time(session.state().slices());
  while (list.step()) {
    if (!time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time, list.memory_bytes())) co_return;
  }
  const std::vector<RunningList::Row> rows = list.take();
  const Nanoseconds at = steady_now();
  proto::ReplyWriter reply = session.reply();
  reply.array(rows.size());
  for (const RunningList::Row& row : rows) {
    reply.array(7);
    reply.bulk(row.record->id());
    reply.integer(static_cast<std::int64_t>(row.index));
    reply.integer(row.attempt);
    reply.integer(std::chrono::duration_cast<std::chrono::milliseconds>(at - row.since).count());
    reply.bulk(row.worker);
    row.progress ? reply.integer(*row.progress) : reply.null();
    row.note.empty() ? reply.null() : reply.bulk(row.note);
  }
}

}  // namespace locksley::daemon
