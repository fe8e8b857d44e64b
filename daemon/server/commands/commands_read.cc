// Commands that read a batch, or wait for it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/batch/batch_results.h"
#include "daemon/base/time.h"
#include "daemon/server/accounts/customer_name.h"
#include "daemon/server/commands/batch_replies.h"
#include "daemon/server/commands/block_deadline.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/named_batch.h"
#include "daemon/server/records/listing.h"
#include "daemon/server/records/refusals.h"
#include "daemon/server/records/results_page.h"
#include "daemon/server/session/read_memory.h"
#include "daemon/server/session/reply_in_slices.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/server_state.h"
#include "proto/output_buffer.h"
#include "proto/read_options.h"

namespace locksley::daemon {

namespace {

// The most bytes of a page of RESULTS: copying takes some 200 us, and sending as long. A page of 1
// MiB delayed all clients by 2 to 3 ms.
constexpr std::uint64_t kMostPageBytes = 256 * 1024;

struct LargeRow {
  std::uint64_t place = 0;
  std::uint64_t bytes = 0;
};
// A page has at least one row, of any size: a large one is alone in its page. None: the page has no
// such row.
std::optional<LargeRow> large_row(const ResultsPage& page, std::uint64_t least) {
  std::optional<LargeRow> found;
  if (page.shown != 1) return found;
  visit_results(page, [&](std::uint64_t place, const ResultRow& row) {
    if (row.output.size() >= least) found = {place, row.output.size()};
    return true;
  });
  return found;
}

Coroutine<void> write_page_of(Session& session, const ResultsPage& page, LargeRow row, std::uint64_t most)
    LOCKSLEY_REQUIRES(kIoThread) {
  if (row.bytes > most) {  // it would close the connection
    session.fail(fmt::format(
        "TOOBIG result {} has {} bytes, and limits.output_buffer is {}; to skip it, continue FROM {}",
        row.place, row.bytes, most, row.place + 2));
    co_return;
  }
  auto views = proto::OutputBuffer::of_views();
  proto::ReplyWriter reply(views, session.info().protocol);
  write_results(reply, page);
  co_await reply_in_slices(session, std::move(views));
}

void write_page(Session& session, const ResultsPage& page) LOCKSLEY_REQUIRES(kIoThread) {
  const Instant began = now();
  proto::ReplyWriter reply = session.reply();
  write_results(reply, page);
  // Sending costs as much again.
  session.state().slices().charge(2 * (now() - began));
}

// Counts the caller as waiting, until this object is destroyed.
class CountedIn {
 public:
  explicit CountedIn(std::atomic<std::uint32_t>& count) : count_(count) { ++count_; }
  ~CountedIn() { --count_; }
  CountedIn(const CountedIn&) = delete;
  CountedIn& operator=(const CountedIn&) = delete;

 private:
  std::atomic<std::uint32_t>& count_;
};

void reply_status(Session& session, const std::shared_ptr<BatchRecord>& record) LOCKSLEY_REQUIRES(kIoThread) {
  const BatchStatus status = session.state().batches().shown_status(record);
  proto::ReplyWriter reply = session.reply();
  write_status(reply, *record, status);
}

// The instant until which a WAIT with this time-out waits; none: without limit. In a transaction no
// command waits.
Instant deadline_of_wait(Session& session, std::optional<std::chrono::milliseconds> timeout) {
  if (session.transaction().is_running()) return now();
  return timeout ? now() + *timeout : kNever;
}

// Discards the rows below `row`. Null after an error reply, or if the connection is to close; else
// the batch's record, which another one may have replaced meanwhile.
Coroutine<std::shared_ptr<BatchRecord>> discard(Session& session, std::shared_ptr<BatchRecord> record,
                                                std::uint64_t row) LOCKSLEY_REQUIRES(kIoThread) {
  Batches& batches = session.state().batches();
  std::optional<ResultLog::Place> place = record->results().place_of(row);
  if (!place && row > record->status().discarded) {
    const auto found = batches.reads().find_row(record, row);
    const auto is_found = [&found](const BatchRecord&) { return found->is_done; };
    if (!co_await session.waits().await_rows(record, is_found)) co_return nullptr;
    const auto still_there = batches.registry().find(record->sequence);
    if (still_there && *still_there == nullptr) {
      session.fail(no_such_batch(record->id()));
      co_return nullptr;
    }
    if (!still_there || !found->place) {
      session.fail(fmt::format("STORE {}", found->place ? still_there.error() : found->place.error()));
      co_return nullptr;
    }
    record = (*still_there)->shared();
    place = *found->place;
  }
  if (place) batches.discard_rows(*record, row, *place);
  co_return record;
}

// The client has left. A large page is freed on another thread.
void drop_read(Batches& batches, std::shared_ptr<const StoreReads::ReadRows> read) {
  const std::uint64_t bytes = read->memory_bytes();
  batches.free_dropped(std::const_pointer_cast<StoreReads::ReadRows>(std::move(read)), bytes);
}

// The page, from memory or from the store. None after an error reply, or if the connection is to
// close. `record`: another one may replace it. `memory` counts the page, unless it is from memory.
Coroutine<std::optional<ResultsPage>> page_of(Session& session, std::shared_ptr<BatchRecord>& record,
                                              const ResultsDemand& demand, ReadMemory& memory)
    LOCKSLEY_REQUIRES(kIoThread) {
  Slices& slices = session.state().slices();
  if (!slices.has_time()) co_await session.waits().wait_for_slice();
  if (session.is_dropped()) co_return std::nullopt;
  std::optional<ResultsPage> page = results_in_memory(*record, demand);
  while (!page) {
    const std::uint64_t first = std::max(row_of_cursor(demand.cursor), record->status().discarded);
    Batches& batches = session.state().batches();
    const std::weak_ptr<const void> client = memory.begin_read();
    auto read = batches.reads().read_rows(record, demand, client, memory.on_read<StoreReads::ReadRows>());
    const auto is_read = [&read](const BatchRecord&) { return read->is_done; };
    bool is_wanted = co_await session.waits().await_rows(record, is_read);
    if (is_wanted && !slices.has_time()) co_await session.waits().wait_for_slice();
    is_wanted = is_wanted && !session.is_dropped();
    if (!is_wanted) {
      // Otherwise the read itself frees the page when it is done.
      if (read->is_done) drop_read(batches, std::move(read));
      co_return std::nullopt;
    }
    if (read->page) co_return *read->page;
    const auto still_there = batches.registry().find(record->sequence);
    const bool is_forgotten = still_there && *still_there == nullptr;
    if (is_forgotten || !still_there || (*still_there)->status().discarded <= first) {
      session.fail(is_forgotten ? no_such_batch(record->id()) : fmt::format("STORE {}", read->page.error()));
      co_return std::nullopt;
    }
    // Another client has discarded the rows meanwhile: the page begins with the first row that is
    // left.
    record = (*still_there)->shared();
    page = results_in_memory(*record, demand);
  }
  co_return page;
}

}  // namespace

void status_command(Session& session, proto::Command& command) {
  BatchRecord* const found = batch_of(session, command.arguments[1]);
  if (found != nullptr) reply_status(session, found->shared());
}

namespace {
// Whether the store has refused the batch since the command found it, so that it does not exist:
// after an error reply.
bool is_refused(Session& session, const BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
  if (!record.stored.is_rejected) return false;
  session.fail(no_such_batch(record.id()));
  return true;
}
}  // namespace

Coroutine<void> wait_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_wait(command.arguments);
  const std::shared_ptr<BatchRecord> record = named_batch(session, parsed);
  if (record == nullptr) co_return;
  // The command may wait for long, and its arguments lie in a block of some kilobytes.
  command = {};
  const Instant deadline = deadline_of_wait(session, parsed->timeout);
  const auto is_over = [](const BatchRecord& batch) { return batch.is_over(); };
  if (co_await session.waits().await_batch(record, is_over, deadline) == CommandWaits::Awaited::kGone)
    co_return;
  if (!is_refused(session, *record)) reply_status(session, record);
}

Coroutine<void> results_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_results(command.arguments);
  if (parsed && parsed->discards && !session.may(proto::CommandGroup::kControl)) {
    session.fail(no_permission_error(session.user(), "results discard"));
    co_return;
  }
  std::shared_ptr<BatchRecord> record = named_batch(session, parsed);
  if (record == nullptr) co_return;
  using enum Batches::Discarder;
  const auto reader_seen = [&](Batches::Discarder which) LOCKSLEY_REQUIRES(kIoThread) {
    if (parsed->discards) session.state().batches().discarder_seen(*record, which);
  };
  reader_seen(kIsReading);
  // Discard before the wait: jobs may be waiting for the room.
  if (parsed->discards) record = co_await discard(session, record, row_of_cursor(parsed->from));
  if (record == nullptr) co_return;
  command = {};  // as in wait_command()
  const Instant deadline = deadline_of_block(session, parsed->block);
  ResultsDemand demand{
      .cursor = parsed->from,
      .count = parsed->count,
      .max_bytes = std::min(kMostPageBytes, session.state().config().limits.output_buffer.count / 2),
      .only_others = parsed->only_failed};
  while (true) {
    if (parsed->block) {
      const std::uint64_t first = row_of_cursor(demand.cursor);
      const auto has_row = [first](const BatchRecord& batch) {
        return batch.is_over() || batch.status().rows > first;
      };
      const CountedIn waits(record->waiters.for_rows);
      const CommandWaits::Awaited awaited =
          co_await session.waits().await_batch(record, has_row, deadline, first);
      if (awaited == CommandWaits::Awaited::kGone) co_return;
      reader_seen(kIsReading);
    }
    if (is_refused(session, *record)) co_return;
    ReadMemory memory(session.memory());
    std::optional<ResultsPage> page = co_await page_of(session, record, demand, memory);
    if (!page) co_return;
    // There were rows, and all of them were ok: wait for more.
    const bool goes_on = parsed->block && parsed->only_failed && page->shown == 0 && !page->is_end &&
                         page->rows != 0 && now() < deadline;
    if (!goes_on) {
      // A crash loses rows that are not on the disk yet, and other rows take their places; the next
      // cursor would miss those. The last page has no next cursor.
      if (!page->is_end && page->rows != 0)
        session.replies().hold(session.state().batches().ticket_of_rows(*record, page->first + page->rows));
      const std::uint64_t most = session.state().config().limits.output_buffer.count;
      const auto large = large_row(*page, std::min<std::uint64_t>(kLargeReply, most + 1));
      const bool is_shown = !large || large->bytes <= most;
      const auto given = page->is_end && !parsed->only_failed && is_shown ? kHasAll : kIsReading;
      reader_seen(given);
      if (large) {
        co_await write_page_of(session, *page, *large, most);
        reader_seen(given);  // that may have taken long
        // The page may be the last owner of the row, which is then freed on another thread.
        session.state().batches().free_dropped(std::make_shared<ResultsPage>(*std::move(page)), large->bytes);
      } else {
        write_page(session, *page);
      }
      co_return;
    }
    demand.cursor = page->first + page->rows + 1;
  }
}

void list_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_list(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  ListDemand demand{.cursor = parsed->cursor,
                    .count = parsed->count,
                    .active_only = parsed->state == to_string(BatchState::kOpen) ||
                                   parsed->state == to_string(BatchState::kQueued) ||
                                   parsed->state == to_string(BatchState::kRunning),
                    .tenant = session.user().is_admin() ? nullptr : &session.user().tenant()};
  std::optional<std::string_view> customer;
  if (parsed->customer) {
    const auto named =
        customer_named(session.state().batches().registry().tenants(), session.user(), *parsed->customer);
    if (!named) return session.fail(named.error());
    demand.tenant = named->tenant;
    customer = named->name;
  }
  if (parsed->match || parsed->handler || customer) {
    demand.matches_batch = [&](const BatchRecord& record) {
      return (!parsed->match || matches_id_or_name(record, *parsed->match)) &&
             (!parsed->handler || record.handler().name() == *parsed->handler) &&
             (!customer || record.options().customer == *customer);
    };
  }
  if (!parsed->state.empty()) {
    demand.matches_status = [&](const BatchStatus& status) {
      return parsed->state == to_string(status.state);
    };
  }
  const auto page = list_page(session.state().batches().registry(), demand);
  if (!page) return session.fail(page.error());
  proto::ReplyWriter reply = session.reply();
  reply.array(2);
  reply.bulk_integer(static_cast<std::int64_t>(page->next));
  reply.array(page->batches.size());
  for (const auto& [record, status] : page->batches) write_status(reply, *record, status);
}

}  // namespace locksley::daemon
