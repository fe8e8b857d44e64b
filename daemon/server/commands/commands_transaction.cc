// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
#include <string>
#include <string_view>
#include <utility>

#include "daemon/server/commands/commands.h"
#include "daemon/server/session/session.h"
#include "daemon/server/session/transaction_run.h"
#include "daemon/store/cluster_board.h"
#include "proto/command_docs.h"
#include "proto/read_options.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

namespace {

using proto::CommandId;

std::string error_of_customer(const proto::ArgumentList& words) {
  const proto::SubcommandSpec* const spec =
      words.size() < 2 ? nullptr : proto::find_subcommand(CommandId::kCustomer, words[1]);
  if (spec == nullptr || !spec->accepts(words.size())) return {};  // subcommand_of() refuses it
  if (spec->id == proto::SubcommandId::kCustomerSet) {
    const auto parsed = proto::parse_customer_set(words);
    return parsed ? std::string() : parsed.error();
  }
  if (spec->id != proto::SubcommandId::kCustomerList) return {};
  const auto parsed = proto::parse_customer_list(words);
  return parsed ? std::string() : parsed.error();
}

// What is wrong with the command's options; empty: nothing. EXEC reports errors that depend on the
// state of the daemon.
std::string error_of_options(const proto::Command& command, CommandId id) {
  const auto error_of = [](const auto& parsed) { return parsed ? std::string() : parsed.error(); };
  const proto::ArgumentList& words = command.arguments;
  switch (id) {
    case CommandId::kSubmit:
      return error_of(proto::parse_submit(words));
    case CommandId::kOpen:
      return error_of(proto::parse_open(words));
    case CommandId::kAddat:
      return error_of(proto::parse_addat(words));
    case CommandId::kRetry:
      return error_of(proto::parse_retry(words));
    case CommandId::kWeight:
      return error_of(proto::parse_weight(words));
    case CommandId::kSlots:
      return error_of(proto::parse_slots(words));
    case CommandId::kCustomer:
      return error_of_customer(words);
    case CommandId::kWait:
      return error_of(proto::parse_wait(words));
    case CommandId::kResults:
      return error_of(proto::parse_results(words));
    case CommandId::kList:
      return error_of(proto::parse_list(words));
    case CommandId::kJob:
      return error_of(proto::parse_job(words));
    case CommandId::kLog:
      return error_of(proto::parse_log(words));
    case CommandId::kRunning:
      return error_of(proto::parse_running(words));
    default:
      return {};
  }
}

// Whether the user may use the handler that SUBMIT or OPEN names, the options are right, and the
// subcommand may be queued. False after an error reply.
bool may_be_queued(Session& session, const proto::Command& command, const proto::CommandSpec& spec)
    LOCKSLEY_REQUIRES(kIoThread) {
  if (!spec.allowed_in_transaction()) {
    session.fail(proto::not_in_transaction_error(spec.name));
    return false;
  }
  if (spec.id == CommandId::kSubmit || spec.id == CommandId::kOpen) {
    const std::string_view handler = command.arguments[1];
    if (!session.user().may_use(handler)) {
      session.fail(forbidden_handler_error(session.state().handlers(), session.user(), handler));
      return false;
    }
  }
  if (const std::string error = error_of_options(command, spec.id); !error.empty()) {
    session.fail(error);
    return false;
  }
  if (spec.id == CommandId::kResults && !session.may(proto::CommandGroup::kControl) &&
      proto::parse_results(command.arguments)->discards) {
    session.fail(no_permission_error(session.user(), "results discard"));
    return false;
  }
  if (spec.subcommands().empty() || command.arguments.size() < 2) return true;
  if (proto::asks_for_help(command.arguments)) return true;
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
  const std::string error = transaction.queue(command, session.memory().account());
  session.memory().update();
  if (!error.empty()) return session.fail(error);
  session.reply().simple("QUEUED");
}

void multi_command(Session& session, proto::Command&) {
  session.transaction().open();
  session.reply().ok();
}

Coroutine<void> exec_command(Session& session, proto::Command&) {
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
  // Otherwise the commands would be refused one by one; and if this daemon learned meanwhile that
  // it still serves, the rest would be executed.
  if (session.state().role() == ClusterBoard::Role::kUnconfirmed) {
    transaction.close();
    session.fail(std::string(kUnconfirmedError));
    co_return;
  }
  co_await run_transaction(session);
}

void discard_command(Session& session, proto::Command&) {
  if (!session.transaction().is_open()) return session.fail("ERR DISCARD without MULTI");
  session.transaction().close();
  session.reply().ok();
}

void watch_command(Session& session, proto::Command&) {
  session.fail(
      "ERR WATCH is not supported: there are no keys to watch. SUBMIT with an ID starts nothing twice, "
      "and ADDAT adds nothing twice");
}

void unwatch_command(Session& session, proto::Command&) { session.reply().ok(); }

}  // namespace locksley::daemon
