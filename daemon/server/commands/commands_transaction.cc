// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
#include <string>
#include <string_view>
#include <utility>

#include "daemon/server/commands/commands.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

namespace {

using proto::CommandId;

// Whether the user may use the handler that SUBMIT or OPEN names, and the subcommand may be queued. False after an
// error reply.
bool may_be_queued(Session& session, const proto::Command& command, const proto::CommandSpec& spec)
    LOCKSLEY_REQUIRES(kIoThread) {
  if (!spec.allowed_in_transaction()) {
    session.fail(proto::not_in_transaction_error(spec.name));
    return false;
  }
  if (spec.id == CommandId::kSubmit || spec.id == CommandId::kOpen) {
    const std::string_view handler = command.arguments[1];
    if (session.user().may_use(handler)) return true;
    session.fail(no_handler_permission_error(session.user(), handler));
    return false;
  }
  if (spec.subcommands().empty() || command.arguments.size() < 2) return true;
  const proto::SubcommandSpec* const subcommand = subcommand_of(session, command, spec.id);
  if (subcommand == nullptr) return false;
  if (subcommand->id != proto::SubcommandId::kClientReply) return true;
  session.fail(proto::not_in_transaction_error(proto::full_name(*subcommand)));
  return false;
}

}  // namespace

void queue_command(Session& session, proto::Command& command, const proto::CommandSpec& spec) {
  Transaction& transaction = session.transaction();
  if (!may_be_queued(session, command, spec)) return transaction.spoil();
  const std::string error = transaction.queue(std::exchange(command, {}), session.memory().account());
  session.update_memory();
  if (!error.empty()) return session.fail(error);
  session.reply().simple("QUEUED");
}

void multi_command(Session& session, proto::Command&) {
  session.transaction().open();
  session.reply().ok();
}

Coroutine<void> exec_command(Session& session, proto::Command) {
  Transaction& transaction = session.transaction();
  if (!transaction.is_open()) {
    session.fail("ERR EXEC without MULTI");
    co_return;
  }
  if (transaction.is_spoiled()) {
    transaction.close();
    session.fail("EXECABORT Transaction discarded because of previous errors.");
    co_return;
  }
  co_await session.run_transaction();
}

void discard_command(Session& session, proto::Command&) {
  if (!session.transaction().is_open()) return session.fail("ERR DISCARD without MULTI");
  session.transaction().close();
  session.reply().ok();
}

void watch_command(Session& session, proto::Command&) {
  session.fail(
      "ERR WATCH is not supported: there are no keys to watch. SUBMIT with an ID starts nothing twice, and "
      "ADDAT "
      "adds nothing twice");
}

void unwatch_command(Session& session, proto::Command&) { session.reply().ok(); }

}  // namespace locksley::daemon
