// Commands that submit jobs.
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/server/commands/batch_replies.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/named_batch.h"
#include "daemon/server/payloads/digest.h"
#include "daemon/server/payloads/pattern.h"
#include "daemon/server/session/reply_in_slices.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/server_state.h"
#include "proto/read_options.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

namespace {

void note_batch(Session& session, const BatchRecord& record) {
  if (Audit::Entry* const entry = session.replies().audit_entry().get()) entry->batch = record.id();
}

void reply_id(Session& session, const Intake::Accepted& accepted) LOCKSLEY_REQUIRES(kIoThread) {
  if (!accepted) return session.fail(accepted.error());
  const BatchRecord& record = **accepted;
  note_batch(session, record);
  session.replies().reply_when_stored(record.stored.jobs_ticket,
                                      [&](proto::ReplyWriter& reply) { reply.bulk(record.id()); });
}

// Checked between two parts of a command: the client may be gone, or its user removed.
bool wants_reply(const Session& session) { return !session.is_dropped() && session.is_logged_in(); }

// Up to this many batches are looked up at once, which takes some 160 us (a guess) if only the
// store has them.
constexpr std::size_t kFewWaits = 8;

// The bytes of the command that no other count includes while it is executed in parts. A command
// from the socket counts to its connection's input until the connection reads again; a command of
// an EXEC has left the queue of its transaction.
std::size_t uncounted_bytes(Session& session, const proto::Command& command) {
  return session.transaction().is_running() ? command.arguments.memory_bytes() : 0;
}

// Looks up the batches for which the new one is to wait: in slices, if they are many. `held`: as
// uncounted_bytes(). False: no reply is wanted any more.
Coroutine<bool> look_up_waits(Session& session, const proto::BatchOptions& options, std::size_t held,
                              FoundDependencies& found) LOCKSLEY_REQUIRES(kIoThread) {
  if (options.after.size() <= kFewWaits) co_return true;
  Slices::Spending time(session.state().slices());
  while (session.state().batches().look_up_next(session.user(), options, found)) {
    if (!time.is_used_up()) continue;
    session.memory().update(held);
    co_await session.waits().wait_for_slice();
    if (!wants_reply(session)) co_return false;
    time.go_on();
  }
  // Accepting the batch takes another slice.
  co_await session.waits().wait_for_slice();
  co_return wants_reply(session);
}

// Copies the pattern of a range in slices. `held`: as above. False: no reply is wanted any more.
Coroutine<bool> copy_pattern(Session& session, std::string_view from, std::size_t held,
                             std::optional<Pattern>& to) LOCKSLEY_REQUIRES(kIoThread) {
  auto parts = std::make_shared<PatternInParts>(from);
  bool is_wanted = true;
  while (is_wanted && !(to = parts->go_on(now() + Slices::kSlice))) {
    session.memory().update(held + from.size());
    co_await session.waits().wait_for_slice();
    is_wanted = wants_reply(session);
  }
  session.state().batches().free_dropped(std::move(parts), from.size());
  co_return is_wanted;
}

// Writes the reply of a RUN that is over, and returns true. False: its results are many or large,
// for write_large_run().
bool write_small_run(Session& session, const BatchRecord& record, proto::Keep keep)
    LOCKSLEY_REQUIRES(kIoThread) {
  constexpr std::uint64_t kFewJobs = 1024;
  const BatchStatus status = record.status();
  if (status.jobs > kFewJobs || status.result_bytes > kLargeReply) return false;
  const std::uint64_t most = session.state().config().limits.output_buffer.count;
  RunOutputs outputs(record, status.jobs, keep, most, session.reply());
  outputs.go_on(Instant::max());
  if (!outputs.error().empty()) session.fail(outputs.error());
  return true;
}

Coroutine<void> write_large_run(Session& session, const BatchRecord& record, proto::Keep keep)
    LOCKSLEY_REQUIRES(kIoThread) {
  const std::uint64_t most = session.state().config().limits.output_buffer.count;
  proto::OutputBuffer whole;
  RunOutputs outputs(record, record.status().jobs, keep, most,
                     proto::ReplyWriter(whole, session.info().protocol));
  Slices& slices = session.state().slices();
  if (!slices.has_time()) co_await session.waits().wait_for_slice();
  while (!outputs.go_on(now() + Slices::kSlice) && !session.is_dropped()) {
    session.memory().update(outputs.memory_bytes());
    co_await session.waits().wait_for_slice();
  }
  if (session.is_dropped()) {
    const std::uint64_t bytes = whole.memory_bytes();
    session.state().batches().free_dropped(std::make_shared<proto::OutputBuffer>(std::move(whole)), bytes);
  } else if (!outputs.error().empty()) {
    session.fail(outputs.error());
  } else {
    session.reply().buffer().append(std::move(whole));
  }
}

// Adds the arguments from `first` on to the batch that the second argument names.
void add_payloads(Session& session, proto::Command& command, std::size_t first,
                  std::optional<std::uint64_t> at) LOCKSLEY_REQUIRES(kIoThread) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  if (const std::string& handler = record->handler().name(); !session.user().may_use(handler)) {
    return session.fail(no_handler_permission_error(session.user(), handler));
  }
  proto::ArgumentList payloads = std::move(command.arguments);
  payloads.drop_front(first);
  const auto count = session.state().batches().intake().add(*record, session.login().account(),
                                                            std::move(payloads), session.id(), at);
  if (!count) return session.fail(count.error());
  session.replies().reply_when_stored(record->stored.jobs_ticket, [&](proto::ReplyWriter& reply) {
    reply.integer(static_cast<std::int64_t>(*count));
  });
}

}  // namespace

void submit_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_submit(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  reply_id(session, session.state().batches().intake().submit(
                        session.user(), *parsed, std::move(command.arguments), BatchRecord::Origin::kSubmit));
}

bool is_long(const proto::Command& command) {
  // Guesses: some 100 us of computing a digest.
  constexpr std::size_t kMany = 8192;
  constexpr std::size_t kManyBytes = std::size_t{1} << 20;
  const std::size_t words = command.arguments.size();
  return words > kMany || command.arguments.payload_bytes() > kManyBytes ||
         (words > 2 * kFewWaits && proto::has_more_waits(command.arguments, kFewWaits));
}

Coroutine<void> submit_long_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_submit(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  Intake::Prepared prepared;
  bool is_wanted = true;
  std::size_t held = uncounted_bytes(session, command);
  const auto* const range = std::get_if<proto::RangeSource>(&parsed->source);
  if (range != nullptr && range->payload_at) {
    is_wanted = co_await copy_pattern(session, command.arguments[*range->payload_at], held, prepared.pattern);
    if (prepared.pattern) held += prepared.pattern->text->size();
  }
  const auto* const jobs = std::get_if<proto::JobsSource>(&parsed->source);
  if (jobs != nullptr && !parsed->options.id.empty()) {
    DigestInParts parts(command.arguments, jobs->first);
    while (is_wanted && !(prepared.digest = parts.go_on(now() + Slices::kSlice))) {
      session.memory().update(held);
      co_await session.waits().wait_for_slice();
      is_wanted = wants_reply(session);
    }
  }
  if (is_wanted) {
    is_wanted = co_await look_up_waits(session, parsed->options, held, prepared.dependencies);
  }
  Batches& batches = session.state().batches();
  if (is_wanted) {
    reply_id(session, batches.intake().submit(session.user(), *parsed, std::move(command.arguments),
                                              BatchRecord::Origin::kSubmit, &prepared));
  }
  if (prepared.pattern) {
    const std::uint64_t bytes = prepared.pattern->text->size();
    batches.free_dropped(std::make_shared<Pattern>(*std::exchange(prepared.pattern, {})), bytes);
  }
  batches.free_words_aside(std::move(command.arguments));
}

void open_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_open(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  reply_id(session, session.state().batches().intake().open(session.user(), *parsed, session.id()));
}

Coroutine<void> open_long_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_open(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  FoundDependencies found;
  const std::size_t held = uncounted_bytes(session, command);
  const bool is_wanted = co_await look_up_waits(session, parsed->options, held, found);
  if (!is_wanted) co_return;
  reply_id(session, session.state().batches().intake().open(session.user(), *parsed, session.id(), &found));
}

void add_command(Session& session, proto::Command& command) { add_payloads(session, command, 2, {}); }

void addat_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_addat(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  add_payloads(session, command, 3, parsed->at);
}

void close_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  BatchChanges& changes = session.state().batches().changes();
  const std::uint64_t count = changes.close(*record, session.login().account());
  const auto write = [count](proto::ReplyWriter& reply) { reply.integer(static_cast<std::int64_t>(count)); };
  session.replies().reply_when_stored(changes.ticket(*record, session.login().account()), write,
                                      record->stored.jobs_ticket);
}

Coroutine<void> run_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_run(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  Batches& batches = session.state().batches();
  Intake::Prepared prepared;
  if (parsed->options.after.size() > kFewWaits) {
    const std::size_t held = uncounted_bytes(session, command);
    const bool is_wanted = co_await look_up_waits(session, parsed->options, held, prepared.dependencies);
    if (!is_wanted) co_return;
  }
  auto accepted = batches.intake().submit(session.user(), *parsed, std::move(command.arguments),
                                          BatchRecord::Origin::kRun, &prepared);
  if (!accepted) {
    session.fail(accepted.error());
    batches.free_words_aside(std::move(command.arguments));
    co_return;
  }
  std::shared_ptr<BatchRecord> record = *std::move(accepted);
  Account& owner = batches.registry().tenant_of(*record).account;
  note_batch(session, *record);
  // Before each return: the payloads and results may take long to free.
  const auto let_go = [&batches, &record] {
    const std::uint64_t memory = record->memory_bytes();
    batches.free_dropped(std::move(record), memory);
  };
  const auto is_over = [](const BatchRecord& batch) { return batch.is_over(); };
  // Not inside the co_await: there g++ 12 evaluates both sides of a conditional.
  const Instant deadline = parsed->options.deadline ? now() + *parsed->options.deadline : kNever;
  CommandWaits::Awaited awaited = co_await session.waits().await_batch(record, is_over, deadline);
  if (awaited == CommandWaits::Awaited::kTimeout) {
    batches.changes().end_by_deadline(*record, owner);
    awaited = co_await session.waits().await_batch(record, is_over, kNever);
  }
  if (awaited == CommandWaits::Awaited::kGone) {
    batches.changes().cancel(*record, owner, "the client of its RUN has gone");
    let_go();
    co_return;
  }
  if (!record->refusal.empty()) {
    session.fail(record->refusal);
  } else if (!write_small_run(session, *record, parsed->options.keep)) {
    co_await write_large_run(session, *record, parsed->options.keep);
    record->refund_results();
  }
  let_go();
}

}  // namespace locksley::daemon
