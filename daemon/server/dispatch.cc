#include "daemon/server/dispatch.h"

#include <algorithm>
#include <array>

#include "daemon/server/commands.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"

namespace locksley::daemon {

namespace {

using proto::CommandId;

constexpr std::size_t index_of(CommandId id) { return static_cast<std::size_t>(id); }

struct HandlerTable {
  std::array<CommandHandler, index_of(CommandId::kCount)> handlers{};
  // How often each command was entered: the addresses of functions are no constants under UBSan.
  std::array<int, index_of(CommandId::kCount)> entries{};
};

constexpr HandlerTable kTable = [] {
  HandlerTable table;
  const auto plain = [&](CommandId id, void (*execute)(Session&, proto::Command&)) {
    table.handlers[index_of(id)].execute = execute;
    ++table.entries[index_of(id)];
  };
  const auto blocking = [&](CommandId id, Coroutine<void> (*execute)(Session&, proto::Command)) {
    table.handlers[index_of(id)].blocking = execute;
    ++table.entries[index_of(id)];
  };
  plain(CommandId::kAdd, add_command);
  blocking(CommandId::kAuth, auth_command);
  plain(CommandId::kCancel, cancel_command);
  blocking(CommandId::kClient, client_command);
  plain(CommandId::kClose, close_command);
  plain(CommandId::kCommand, command_command);
  blocking(CommandId::kConfig, config_command);
  plain(CommandId::kEcho, echo_command);
  plain(CommandId::kExplain, explain_command);
  plain(CommandId::kForget, forget_command);
  plain(CommandId::kHandlers, handlers_command);
  blocking(CommandId::kHello, hello_command);
  plain(CommandId::kInfo, info_command);
  plain(CommandId::kList, list_command);
  plain(CommandId::kOpen, open_command);
  plain(CommandId::kPause, pause_command);
  plain(CommandId::kPing, ping_command);
  plain(CommandId::kPsubscribe, psubscribe_command);
  plain(CommandId::kPunsubscribe, punsubscribe_command);
  plain(CommandId::kQuit, quit_command);
  plain(CommandId::kReset, reset_command);
  blocking(CommandId::kResults, results_command);
  plain(CommandId::kResume, resume_command);
  plain(CommandId::kRetry, retry_command);
  blocking(CommandId::kRun, run_command);
  plain(CommandId::kSelect, select_command);
  plain(CommandId::kStatus, status_command);
  plain(CommandId::kSubmit, submit_command);
  plain(CommandId::kSubscribe, subscribe_command);
  plain(CommandId::kTenants, tenants_command);
  plain(CommandId::kUnsubscribe, unsubscribe_command);
  blocking(CommandId::kWait, wait_command);
  plain(CommandId::kWeight, weight_command);
  plain(CommandId::kWorkers, workers_command);
  return table;
}();

static_assert(std::ranges::all_of(kTable.entries, [](int entries) { return entries == 1; }),
              "every command has one handler");

// CLIENT REPLY SKIP is about the command after it: step from "the next one" to "this one", and from this one
// to none.
void step_reply_mode(Session& session) {
  if (session.reply_mode == Session::ReplyMode::kSkipNext) {
    session.reply_mode = Session::ReplyMode::kSkipping;
  } else if (session.reply_mode == Session::ReplyMode::kSkipping) {
    session.reply_mode = Session::ReplyMode::kOn;
  }
}

// Who may not send it: the error reply. Needs: the session may not send commands of this group.
bool is_let_in(Session& session, const proto::CommandSpec& spec) {
  if (!session.is_logged_in()) {
    if (spec.allowed_before_auth()) return true;
    session.fail(kNoAuth);
  } else {
    session.fail(no_permission_error(session.user(), spec.name));
  }
  return false;
}

}  // namespace

const CommandHandler& handler_of(CommandId id) { return kTable.handlers[index_of(id)]; }

Dispatched dispatch(Session& session, proto::Command& command, const proto::CommandSpec*& spec) {
  step_reply_mode(session);
  ServerStats& stats = session.server().stats();
  const proto::CommandSpec* found = proto::find_command(command.name());
  if (found == nullptr) {
    stats.unknown_commands.add(1);
    session.fail(session.is_logged_in() ? proto::unknown_command_error(command.arguments)
                                        : std::string(kNoAuth));
    return Dispatched::kDone;
  }
  spec = found;
  stats.commands[index_of(found->id)].add(1);
  if (!session.may(found->group) && !is_let_in(session, *found)) return Dispatched::kDone;
  if (!found->accepts(command.arguments.size())) {
    session.fail(proto::arity_error(*found));
    return Dispatched::kDone;
  }
  if (session.protocol == proto::Protocol::kResp2 && session.is_subscribed() &&
      !found->allowed_while_subscribed()) {
    session.fail(proto::not_while_subscribed_error(*found));
    return Dispatched::kDone;
  }
  const CommandHandler& handler = handler_of(found->id);
  if (handler.blocking != nullptr) return Dispatched::kBlocks;
  handler.execute(session, command);
  return Dispatched::kDone;
}

const proto::SubcommandSpec* subcommand_of(Session& session, const proto::Command& command,
                                           CommandId container) {
  const std::string_view name = command.arguments[1];
  const proto::SubcommandSpec* found = proto::find_subcommand(container, name);
  if (found == nullptr) {
    session.fail(proto::unknown_subcommand_error(proto::command(container), name));
    return nullptr;
  }
  const auto arguments = static_cast<std::int64_t>(command.arguments.size());
  if (arguments < found->min_arguments || arguments > found->max_arguments) {
    session.fail(proto::arity_error(*found));
    return nullptr;
  }
  if (!session.may(found->group)) {
    session.fail(no_permission_error(session.user(), proto::full_name(*found)));
    return nullptr;
  }
  return found;
}

}  // namespace locksley::daemon
