// Commands that change a batch.
#include "daemon/server/batch_replies.h"
#include "daemon/server/commands.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/read_options.h"

namespace locksley::daemon {

namespace {

// The batch that the command is about; null after an error reply.
BatchRecord* batch_of(Session& session, const proto::Command& command) {
  BatchRecord* record = session.server().batches().registry().find(command.arguments[1]);
  if (record == nullptr) session.fail(no_such_batch(command.arguments[1]));
  return record;
}

}  // namespace

void cancel_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command);
  if (record == nullptr) return;
  const std::uint64_t count =
      record->is_over() ? 0 : session.server().batches().cancel(*record, "cancelled by request");
  session.reply().integer(static_cast<std::int64_t>(count));
}

void forget_command(Session& session, proto::Command& command) {
  Registry& registry = session.server().batches().registry();
  const std::string_view id = command.arguments[1];
  BatchRecord* record = registry.find(id);
  bool forgotten = false;
  if (record != nullptr && record->is_over()) {
    // It may be over for less time than the I/O thread has taken to hear of it.
    session.server().batches().hear_of(*record);
    forgotten = registry.forget(id);
    session.server().batches().arm_timer();
  }
  session.reply().integer(forgotten ? 1 : 0);
}

void weight_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_weight(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  BatchRecord* record = batch_of(session, command);
  if (record == nullptr) return;
  if (!record->is_over()) record->lane.set_weight(*record, parsed->weight);
  session.reply().ok();
}

void pause_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command);
  if (record == nullptr) return;
  if (!record->is_over()) record->lane.pause(*record);
  session.reply().ok();
}

void resume_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command);
  if (record == nullptr) return;
  if (!record->is_over()) record->lane.resume(*record);
  session.reply().ok();
}

}  // namespace locksley::daemon
