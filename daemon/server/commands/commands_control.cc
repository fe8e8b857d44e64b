// Commands that change a batch, or the processes of a handler.
#include <memory>
#include <optional>
#include <string>

#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/named_batch.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/control.h"
#include "daemon/server/state/server_state.h"
#include "proto/read_options.h"

namespace locksley::daemon {

namespace {

void reply_ok(Session& session, BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
  const Ticket ticket = session.state().batches().changes().ticket(record, session.login().account());
  session.replies().reply_when_stored(ticket, [](proto::ReplyWriter& reply) { reply.ok(); });
}

void reply_count(Session& session, BatchRecord& record, std::uint64_t count) LOCKSLEY_REQUIRES(kIoThread) {
  const Ticket ticket = session.state().batches().changes().ticket(record, session.login().account());
  session.replies().reply_when_stored(
      ticket, [&](proto::ReplyWriter& reply) { reply.integer(static_cast<std::int64_t>(count)); });
}

struct Changed {
  BatchRecord* record = nullptr;  // null: there was an error reply
  std::uint64_t count = 0;
};
Changed change(Session& session, std::string_view id, Control what, const ControlArguments& arguments = {})
    LOCKSLEY_REQUIRES(kIoThread) {
  BatchRecord* record = batch_of(session, id);
  if (record == nullptr) return {};
  const auto count = control(session.state().batches(), session.user(), *record, what, arguments);
  if (!count) {
    session.fail(count.error());
    return {};
  }
  return {record, *count};
}

}  // namespace

void cancel_command(Session& session, proto::Command& command) {
  const Changed changed = change(session, command.arguments[1], Control::kCancel);
  if (changed.record != nullptr) reply_count(session, *changed.record, changed.count);
}

Coroutine<void> retry_command(Session& session, proto::Command& command) {
  const auto is_done = [](const BatchRecord& batch) {
    kIoThread.assert_held();
    return !batch.is_requeueing();
  };
  const auto parsed = proto::parse_retry(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  BatchRecord* record = batch_of(session, command.arguments[1]);
  Batches& batches = session.state().batches();
  std::shared_ptr<const ReadFailures> failures;
  for (;;) {
    if (record == nullptr) co_return;
    if (record->is_requeueing()) {
      // Another client's RETRY is under way; this one queues jobs that failed since.
      if (!co_await session.waits().await_rows(record->shared(), is_done)) co_return;
    } else if (Intake::must_read_failures(*record, failures.get())) {
      failures = batches.reads().read_failures(record->shared());
      const auto are_read = [&failures](const BatchRecord&) { return failures->is_done; };
      if (!co_await session.waits().await_rows(record->shared(), are_read)) co_return;
    } else {
      break;
    }
    record = batch_of(session, command.arguments[1]);
  }
  const Changed changed =
      change(session, command.arguments[1], Control::kRetry,
             {.round = parsed->round, .indexes = parsed->indexes, .failures = failures.get()});
  if (failures != nullptr) {
    const std::uint64_t bytes = failures->memory_bytes();
    batches.free_dropped(std::const_pointer_cast<ReadFailures>(std::move(failures)), bytes);
  }
  if (changed.record == nullptr) co_return;
  const std::shared_ptr<BatchRecord> retried = changed.record->shared();
  if (retried->is_requeueing() && !co_await session.waits().await_rows(retried, is_done)) co_return;
  reply_count(session, *retried, changed.count);
}

void forget_command(Session& session, proto::Command& command) {
  Batches& batches = session.state().batches();
  const auto found = batches.find(session.user(), command.arguments[1]);
  // A repetition by an admin: its own batch is already gone.
  const bool is_repeated = !found && found.error().starts_with("NOBATCH ");
  if (!found && !is_repeated) return session.fail(found.error());
  if (is_repeated || *found == nullptr) {
    const auto ticket = batches.forget_nothing();
    if (!ticket) return session.fail(ticket.error());
    return session.replies().reply_when_stored(*ticket, [](proto::ReplyWriter& reply) { reply.integer(0); });
  }
  const std::optional<Ticket> forgotten = batches.forget(**found, session.user());
  session.replies().reply_when_stored(forgotten.value_or(0),
                                      [&](proto::ReplyWriter& reply) { reply.integer(forgotten ? 1 : 0); });
}

void weight_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_weight(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  const Changed changed = change(session, command.arguments[1], Control::kWeight, {.weight = parsed->weight});
  if (changed.record != nullptr) reply_ok(session, *changed.record);
}

void slots_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_slots(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  const Changed changed = change(session, command.arguments[1], Control::kSlots, {.slots = parsed->slots});
  if (changed.record != nullptr) reply_ok(session, *changed.record);
}

void pause_command(Session& session, proto::Command& command) {
  const Changed changed = change(session, command.arguments[1], Control::kPause);
  if (changed.record != nullptr) reply_ok(session, *changed.record);
}

void resume_command(Session& session, proto::Command& command) {
  const Changed changed = change(session, command.arguments[1], Control::kResume);
  if (changed.record != nullptr) reply_ok(session, *changed.record);
}

void handler_command(Session& session, proto::Command& command) {
  // RESTART is the only subcommand.
  if (subcommand_of(session, command, proto::CommandId::kHandler) == nullptr) return;
  const auto restarted = restart_handler(session.state(), session.user(), std::string(command.arguments[2]));
  if (!restarted) return session.fail(restarted.error());
  session.reply().integer(*restarted);
}

}  // namespace locksley::daemon
