#include "daemon/server/commands/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "config/validate.h"
#include "daemon/server/commands/audit_line.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/records/lookup.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/server_state.h"
#include "proto/command_docs.h"
#include "proto/hello.h"
#include "proto/submit_options.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using proto::CommandId;

// The functions that execute a command. If both are set, `blocking` executes the commands for which
// is_long() is true. Both write exactly one reply to the session, except that subscriptions write
// one for each channel, and that CLIENT REPLY OFF and SKIP, and a dropped connection, get none.
// Both may take the arguments out of the command. They run on the I/O thread and do not block it;
// `blocking` may suspend.
struct CommandFunctions {
  void (*execute)(Session& session, proto::Command& command) = nullptr;
  Coroutine<void> (*blocking)(Session& session, proto::Command& command) = nullptr;
  bool names_batch = false;  // the second word is the id of an existing batch
};

// The commands whose second word names an existing batch.
constexpr std::array kOfBatch = {
    CommandId::kAdd,     CommandId::kAddat,   CommandId::kCancel, CommandId::kClose,
    CommandId::kExplain, CommandId::kForget,  CommandId::kJob,    CommandId::kLog,
    CommandId::kPause,   CommandId::kResults, CommandId::kResume, CommandId::kRetry,
    CommandId::kSlots,   CommandId::kStatus,  CommandId::kWait,   CommandId::kWeight,
};

// The commands of the port for workers.
constexpr std::array<std::string_view, 8> kWorkersCommands{"JOIN",  "CLAIM", "SETTLE",  "NOTE",
                                                           "YIELD", "BEAT",  "RECLAIM", "LEAVE"};

// The error for an unknown command. It tells a worker that connected to the port for clients which
// port to use.
std::string no_such_command(const config::Config& config, const proto::ArgumentList& arguments) {
  std::string text = proto::unknown_command_error(arguments);
  const std::string_view name = arguments.empty() ? std::string_view() : arguments[0];
  const auto is_it = [name](std::string_view one) { return proto::equals_ignoring_case(one, name); };
  if (std::ranges::none_of(kWorkersCommands, is_it)) return text;
  if (!text.ends_with(' ')) text += ' ';
  text += "(the port for workers is another one: workers.port, ";
  if (!config::serves_remote_workers(config))
    return text + "which is closed, because no handler has `remote: true`)";
  if (config.workers.port == 0) return text + "whose number is in the daemon's log)";
  return text + fmt::format("{})", config.workers.port);
}

constexpr std::size_t index_of(CommandId id) { return static_cast<std::size_t>(id); }

struct FunctionTable {
  std::array<CommandFunctions, index_of(CommandId::kCount)> functions{};
  // How often each command was entered, for the static_assert below: under UBSan, comparing the
  // address of a function with null is not a constant expression.
  std::array<int, index_of(CommandId::kCount)> entries{};
};

constexpr FunctionTable kTable = [] {
  FunctionTable table;
  const auto plain = [&](CommandId id, void (*execute)(Session&, proto::Command&)) {
    table.functions[index_of(id)].execute = execute;
    ++table.entries[index_of(id)];
  };
  const auto blocking = [&](CommandId id, Coroutine<void> (*execute)(Session&, proto::Command&)) {
    table.functions[index_of(id)].blocking = execute;
    ++table.entries[index_of(id)];
  };
  const auto large = [&](CommandId id, Coroutine<void> (*execute)(Session&, proto::Command&)) {
    table.functions[index_of(id)].blocking = execute;
  };
  plain(CommandId::kActive, active_command);
  plain(CommandId::kAdd, add_command);
  plain(CommandId::kAddat, addat_command);
  blocking(CommandId::kAuth, auth_command);
  blocking(CommandId::kBackup, backup_command);
  plain(CommandId::kCancel, cancel_command);
  blocking(CommandId::kClient, client_command);
  plain(CommandId::kClose, close_command);
  plain(CommandId::kCommand, command_command);
  blocking(CommandId::kConfig, config_command);
  plain(CommandId::kCustomer, customer_command);
  plain(CommandId::kDiscard, discard_command);
  plain(CommandId::kEcho, echo_command);
  large(CommandId::kEcho, echo_long_command);
  blocking(CommandId::kExec, exec_command);
  plain(CommandId::kExplain, explain_command);
  plain(CommandId::kForget, forget_command);
  plain(CommandId::kHandler, handler_command);
  plain(CommandId::kHandlers, handlers_command);
  blocking(CommandId::kHello, hello_command);
  plain(CommandId::kInfo, info_command);
  blocking(CommandId::kJob, job_command);
  plain(CommandId::kList, list_command);
  blocking(CommandId::kLog, log_command);
  plain(CommandId::kMulti, multi_command);
  plain(CommandId::kNodes, nodes_command);
  plain(CommandId::kOpen, open_command);
  large(CommandId::kOpen, open_long_command);
  plain(CommandId::kPause, pause_command);
  plain(CommandId::kPing, ping_command);
  large(CommandId::kPing, ping_long_command);
  blocking(CommandId::kPsubscribe, psubscribe_command);
  blocking(CommandId::kPunsubscribe, punsubscribe_command);
  plain(CommandId::kQuit, quit_command);
  blocking(CommandId::kReset, reset_command);
  blocking(CommandId::kResults, results_command);
  plain(CommandId::kResume, resume_command);
  blocking(CommandId::kRetry, retry_command);
  blocking(CommandId::kRun, run_command);
  blocking(CommandId::kRunning, running_command);
  plain(CommandId::kSelect, select_command);
  plain(CommandId::kSlots, slots_command);
  plain(CommandId::kStatus, status_command);
  plain(CommandId::kSubmit, submit_command);
  large(CommandId::kSubmit, submit_long_command);
  blocking(CommandId::kSubscribe, subscribe_command);
  blocking(CommandId::kTenants, tenants_command);
  blocking(CommandId::kUnsubscribe, unsubscribe_command);
  plain(CommandId::kUnwatch, unwatch_command);
  blocking(CommandId::kWait, wait_command);
  plain(CommandId::kWatch, watch_command);
  plain(CommandId::kWeight, weight_command);
  blocking(CommandId::kWorkers, workers_command);
  for (const CommandId id : kOfBatch) table.functions[index_of(id)].names_batch = true;
  return table;
}();

static_assert(std::ranges::all_of(kTable.entries, [](int entries) { return entries == 1; }),
              "every command has one function");

// CLIENT REPLY SKIP applies to the command after it: goes from "the next one" to "this one", and
// from this one to none.
void step_reply_mode(Session& session) {
  if (session.info().reply_mode == ClientInfo::ReplyMode::kSkipNext) {
    session.info().reply_mode = ClientInfo::ReplyMode::kSkipping;
  } else if (session.info().reply_mode == ClientInfo::ReplyMode::kSkipping) {
    session.info().reply_mode = ClientInfo::ReplyMode::kOn;
  }
}

// For a session without the permission for this group: whether the command is still allowed,
// because it may come before a login. If not, writes the error reply.
bool is_let_in(Session& session, const proto::CommandSpec& spec) {
  if (!session.is_logged_in()) {
    if (spec.allowed_before_auth()) return true;
    session.fail(proto::kNoAuth);
  } else {
    session.fail(no_permission_error(session.user(), spec.name));
  }
  return false;
}

// Makes the checks that the command table asks for. False after an error reply.
bool passes(Session& session, const proto::CommandSpec& spec, const proto::ArgumentList& arguments) {
  if (!session.may(spec.group) && !is_let_in(session, spec)) return false;
  if (!spec.accepts(arguments.size())) {
    session.fail(proto::arity_error(spec));
    return false;
  }
  if (spec.has_too_long_word(arguments)) {
    session.fail(proto::too_long_word_error(spec));
    return false;
  }
  if (session.info().protocol == proto::Protocol::kResp2 && !session.subscriptions().empty() &&
      !spec.allowed_while_subscribed()) {
    session.fail(proto::not_while_subscribed_error(spec));
    return false;
  }
  return true;
}

// Needs: not kActive.
std::string refusal_of(ClusterBoard::Role role, const ClusterBoard& cluster) {
  if (role == ClusterBoard::Role::kLoading) return std::string(kLoadingError);
  if (role == ClusterBoard::Role::kUnconfirmed) return std::string(kUnconfirmedError);
  return "READONLY " + where_the_active_daemon_is(*cluster.get());
}

// A daemon that is not the active one has no batches, or may have lost them: it executes only
// commands about the connection, the daemon and its neighbours. False after an error reply.
bool is_for_this_daemon(Session& session, const proto::CommandSpec& spec) {
  const ClusterBoard::Role role = session.state().role();
  if (role == ClusterBoard::Role::kActive) {
    session.replies().tell_of_batches();
    return true;
  }
  // CONFIG and CUSTOMER are of the group kConnection, but CONFIG SET and RELOAD, and customers,
  // need parts that only the active daemon has.
  const bool is_harmless = (spec.group == proto::CommandGroup::kConnection && spec.id != CommandId::kConfig &&
                            spec.id != CommandId::kCustomer) ||
                           spec.id == CommandId::kNodes;
  if (is_harmless) return true;
  session.fail(refusal_of(role, *session.state().cluster()));
  return false;
}

// Freeing a command of very many bytes or words takes milliseconds, so another thread does it.
void free_if_large(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread) {
  constexpr std::size_t kMuch = std::size_t{1} << 20;
  constexpr std::size_t kMany = std::size_t{1} << 17;
  if (command.arguments.payload_bytes() > kMuch || command.arguments.size() > kMany)
    session.state().batches().free_words_aside(std::move(command.arguments));
}

// Whether the batch that a command names is to be loaded before the command finds it.
bool must_load(Session& session, const CommandFunctions& functions, const proto::Command& command)
    LOCKSLEY_REQUIRES(kIoThread) {
  if (!functions.names_batch) return false;
  return session.state().batches().first_to_load(session.user(), command.arguments[1]) != 0;
}

// Whether a command that may put something into the store does not, because it is about a batch
// that is in memory alone: it makes one, or changes one.
bool puts_nothing_there(Session& session, CommandId id, const proto::ArgumentList& arguments)
    LOCKSLEY_REQUIRES(kIoThread) {
  if (id == CommandId::kSubmit || id == CommandId::kOpen) return proto::is_ephemeral(arguments);
  if (arguments.size() < 2 || !session.is_logged_in()) return false;
  return is_in_memory_alone(session.state().batches().registry(), session.user(), arguments[1]);
}

// Refuses an unknown command.
void refuse_unknown(Session& session, const proto::ArgumentList& arguments) LOCKSLEY_REQUIRES(kIoThread) {
  session.transaction().spoil();
  session.state().stats().unknown_commands.add(1);
  session.fail(session.is_logged_in() ? no_such_command(session.state().config(), arguments)
                                      : std::string(proto::kNoAuth));
}

// Whether the command may be executed or queued. If not, it has its error reply, and EXEC will
// execute nothing.
bool is_accepted(Session& session, const proto::CommandSpec& spec, const proto::ArgumentList& arguments) {
  if (passes(session, spec, arguments) && is_for_this_daemon(session, spec)) return true;
  session.transaction().spoil();
  return false;
}

// The command has its reply.
CommandExecutor::Executed done(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread) {
  end_audit_line(session);
  free_if_large(session, command);
  return CommandExecutor::Executed::kDone;
}

}  // namespace

CommandExecutor::Writes Dispatcher::writes(Session& session, const proto::Command& command) const {
  const proto::CommandSpec* const spec = proto::find_command(command.name());
  if (spec == nullptr) return Writes::kNothing;
  if (spec->id == CommandId::kCustomer && command.arguments.size() > 1) {
    const proto::SubcommandSpec* const found = proto::find_subcommand(spec->id, command.arguments[1]);
    return found != nullptr && found->group == proto::CommandGroup::kControl ? Writes::kMore
                                                                             : Writes::kNothing;
  }
  // A RUN is in memory alone.
  if ((spec->flags & proto::kWrite) == 0 || spec->id == CommandId::kRun) return Writes::kNothing;
  if (puts_nothing_there(session, spec->id, command.arguments)) return Writes::kNothing;
  const bool changes = spec->group == proto::CommandGroup::kControl && spec->id != CommandId::kForget;
  return changes ? Writes::kChange : Writes::kMore;
}

Coroutine<void> Dispatcher::execute_blocking(Session& session, CommandId id, proto::Command& command) const {
  kIoThread.assert_held();
  const CommandFunctions& functions = kTable.functions[index_of(id)];
  if (functions.names_batch && session.state().batches().loads_aside())
    return load_and_execute(session, id, command);
  return functions.blocking(session, command);
}

Coroutine<void> Dispatcher::load_and_execute(Session& session, CommandId id, proto::Command& command) {
  Batches& batches = session.state().batches();
  const proto::CommandSpec& spec = proto::command(id);
  std::uint64_t sequence = 0;
  while ((sequence = batches.first_to_load(session.user(), command.arguments[1])) != 0) {
    struct Load {
      bool is_done = false;
      BatchLoads::Outcome outcome;
    };
    const auto load = std::make_shared<Load>();
    batches.load(sequence, [load, waiting = session.weak_from_this()](const BatchLoads::Outcome& outcome) {
      load->is_done = true;
      load->outcome = outcome;
      if (const auto woken = waiting.lock()) woken->wake();
    });
    if (!co_await session.waits().await([&load] { return load->is_done; })) co_return;
    if (!load->outcome) {
      session.fail(cannot_look_up(load->outcome.error()));
      co_return;
    }
    // The user, or the daemon's role, may have changed.
    if (!session.may(spec.group) && !is_let_in(session, spec)) co_return;
    if (!is_for_this_daemon(session, spec)) co_return;
  }
  const CommandFunctions& functions = kTable.functions[index_of(id)];
  if (functions.blocking != nullptr) {
    co_await functions.blocking(session, command);
  } else {
    functions.execute(session, command);
  }
}

void Dispatcher::finish(Session& session, proto::Command& command) const {
  kIoThread.assert_held();
  end_audit_line(session);
  free_if_large(session, command);
  command.arguments.clear();
}

CommandExecutor::Executed Dispatcher::execute(Session& session, proto::Command& command,
                                              const proto::CommandSpec*& spec) const {
  kIoThread.assert_held();
  step_reply_mode(session);
  const proto::CommandSpec* const found = proto::find_command(command.name());
  if (found == nullptr) {
    refuse_unknown(session, command.arguments);
    return done(session, command);
  }
  spec = found;
  const bool is_queued = session.transaction().is_open() && !found->ends_transaction();
  if (!is_queued) {  // else this comes when EXEC executes it
    session.state().stats().commands[index_of(found->id)].add(1);
    begin_audit_line(session, command, *found);
  }
  if (!is_accepted(session, *found, command.arguments)) return done(session, command);
  if (is_queued) {
    queue_command(session, command, *found);
    return done(session, command);
  }
  const CommandFunctions& functions = kTable.functions[index_of(found->id)];
  const bool is_plain = functions.execute != nullptr && (functions.blocking == nullptr || !is_long(command));
  if (!is_plain || must_load(session, functions, command)) return Executed::kBlocks;
  functions.execute(session, command);
  return done(session, command);
}

const proto::SubcommandSpec* subcommand_of(Session& session, const proto::Command& command,
                                           CommandId container) {
  const std::string_view name = command.arguments[1];
  const proto::SubcommandSpec* found = proto::find_subcommand(container, name);
  if (found == nullptr) {
    if (proto::asks_for_help(command.arguments)) {
      proto::ReplyWriter reply = session.reply();
      proto::write_help(reply, proto::command(container));
    } else if (proto::names_help(command.arguments)) {
      session.fail(proto::help_arity_error(proto::command(container)));
    } else {
      session.fail(proto::unknown_subcommand_error(proto::command(container), name));
    }
    return nullptr;
  }
  if (!found->accepts(command.arguments.size())) {
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
