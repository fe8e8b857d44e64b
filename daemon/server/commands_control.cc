// Commands that change a batch.
#include <optional>

#include "daemon/server/batch_replies.h"
#include "daemon/server/commands.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/read_options.h"

namespace locksley::daemon {

namespace {

void reply_ok(Session& session, const BatchRecord& record) {
  session.reply_when_stored(record.ticket, [](proto::ReplyWriter& reply) { reply.ok(); });
}

}  // namespace

void cancel_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  const std::uint64_t count =
      record->is_over() ? 0 : session.server().batches().cancel(*record, "cancelled by request");
  session.reply_when_stored(
      record->ticket, [&](proto::ReplyWriter& reply) { reply.integer(static_cast<std::int64_t>(count)); });
}

void retry_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  if (const std::string& handler = record->handler().name(); !session.user().may_use(handler)) {
    return session.fail(no_handler_permission_error(session.user(), handler));
  }
  const auto count = session.server().batches().retry(*record);
  if (!count) return session.fail(count.error());
  session.reply_when_stored(
      record->ticket, [&](proto::ReplyWriter& reply) { reply.integer(static_cast<std::int64_t>(*count)); });
}

void forget_command(Session& session, proto::Command& command) {
  Batches& batches = session.server().batches();
  const auto found = batches.find(session.user(), command.arguments[1]);
  if (!found) return session.fail(found.error());
  BatchRecord* record = *found;
  std::optional<Ticket> forgotten;
  if (record != nullptr && record->is_over()) {
    // It may be over for less time than the I/O thread has taken to hear of it.
    batches.hear_of(*record);
    forgotten = batches.forget(*record, Urgency::kAwaited);
    batches.arm_timer();
  }
  session.reply_when_stored(forgotten.value_or(0),
                            [&](proto::ReplyWriter& reply) { reply.integer(forgotten ? 1 : 0); });
}

void weight_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_weight(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  if (!record->is_over()) session.server().batches().set_weight(*record, parsed->weight);
  reply_ok(session, *record);
}

void pause_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  if (!record->is_over()) session.server().batches().pause(*record);
  reply_ok(session, *record);
}

void resume_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  if (!record->is_over()) session.server().batches().resume(*record);
  reply_ok(session, *record);
}

}  // namespace locksley::daemon
