// Commands that read a batch, and wait for it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "daemon/server/batch_replies.h"
#include "daemon/server/commands.h"
#include "daemon/server/listing.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/read_options.h"

namespace locksley::daemon {

namespace {

void write_page(Session& session, const ResultsPage& page) {
  const std::size_t before = session.output_size();
  proto::ReplyWriter reply = session.reply();
  write_results(reply, page);
  session.server().count_page(session.output_size() - before);
}

std::shared_ptr<BatchRecord> shared(BatchRecord& record) {
  return std::static_pointer_cast<BatchRecord>(record.shared_from_this());
}

}  // namespace

BatchRecord* batch_of(Session& session, std::string_view id) {
  const auto found = session.server().batches().find(session.user(), id);
  if (!found) {
    session.fail(found.error());
    return nullptr;
  }
  if (*found == nullptr) session.fail(no_such_batch(id));
  return *found;
}

void status_command(Session& session, proto::Command& command) {
  const BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  proto::ReplyWriter reply = session.reply();
  write_status(reply, *record, record->status());
}

Coroutine<void> wait_command(Session& session, proto::Command command) {
  const auto parsed = proto::parse_wait(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  BatchRecord* found = batch_of(session, parsed->id);
  if (found == nullptr) co_return;
  const std::shared_ptr<BatchRecord> record = shared(*found);
  const Instant deadline = parsed->timeout ? std::chrono::steady_clock::now() + *parsed->timeout : kNever;
  const auto is_over = [](const BatchRecord& batch) { return batch.is_over(); };
  if (co_await session.until(record, is_over, deadline) == Session::Until::kGone) co_return;
  proto::ReplyWriter reply = session.reply();
  write_status(reply, *record, record->status());
}

Coroutine<void> results_command(Session& session, proto::Command command) {
  const auto parsed = proto::parse_results(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  BatchRecord* found = batch_of(session, parsed->id);
  if (found == nullptr) co_return;
  const std::shared_ptr<BatchRecord> record = shared(*found);
  if (parsed->block) {
    const bool for_ever = parsed->block->count() == 0;
    const Instant deadline = for_ever ? kNever : std::chrono::steady_clock::now() + *parsed->block;
    const std::uint64_t first = row_of_cursor(parsed->from);
    const auto has_row = [first](const BatchRecord& batch) {
      return batch.is_over() || batch.status().rows > first;
    };
    ++record->row_waiters;
    const Session::Until until = co_await session.until(record, has_row, deadline, first);
    --record->row_waiters;
    if (until == Session::Until::kGone) co_return;
  }
  const std::uint64_t most =
      std::min(session.server().page_room(), session.server().config().limits.output_buffer.count / 2);
  const ResultsDemand demand{.cursor = parsed->from, .count = parsed->count, .max_bytes = most};
  const std::optional<ResultsPage> page = results_in_memory(*record, demand);
  if (page) {
    write_page(session, *page);
    co_return;
  }
  Batches& batches = session.server().batches();
  const auto read = batches.read_rows(record, demand);
  const auto is_read = [&read](const BatchRecord&) { return read->is_done; };
  if (!co_await session.until_soon(record, is_read)) co_return;
  if (!read->page) {
    const auto still_there = batches.registry().find(record->sequence);
    const bool is_forgotten = still_there && *still_there == nullptr;
    session.fail(is_forgotten ? no_such_batch(parsed->id) : fmt::format("STORE {}", read->page.error()));
    co_return;
  }
  write_page(session, *read->page);
}

void list_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_list(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  ListDemand demand{.cursor = parsed->cursor,
                    .count = parsed->count,
                    .active_only = parsed->state == to_string(BatchState::open) ||
                                   parsed->state == to_string(BatchState::queued) ||
                                   parsed->state == to_string(BatchState::running),
                    .tenant = session.user().is_admin() ? nullptr : &session.user().tenant()};
  if (parsed->match) {
    demand.is_named = [&](const BatchRecord& record) { return is_named_like(record, *parsed->match); };
  }
  if (!parsed->state.empty()) {
    demand.is_so = [&](const BatchStatus& status) { return parsed->state == to_string(status.state); };
  }
  const auto page = list_page(session.server().batches().registry(), demand);
  if (!page) return session.fail(page.error());
  proto::ReplyWriter reply = session.reply();
  reply.array(2);
  reply.bulk_integer(static_cast<std::int64_t>(page->next));
  reply.array(page->batches.size());
  for (const auto& [record, status] : page->batches) write_status(reply, *record, status);
}

}  // namespace locksley::daemon
