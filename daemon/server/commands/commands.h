// The functions of the commands, by file; dispatch.cc has their table, and PROTOCOL.md describes
// the commands.
#pragma once

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "proto/command_reader.h"
#include "proto/command_table.h"

namespace locksley::daemon {

class Session;

// The subcommand that a command's second argument names. Null after a reply: the text of HELP, or
// the error that there is no such subcommand, the number of arguments is wrong, or the user may not
// send it. dispatch.cc
const proto::SubcommandSpec* subcommand_of(Session& session, const proto::Command& command,
                                           proto::CommandId container) LOCKSLEY_REQUIRES(kIoThread);

// commands_connection.cc
void command_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void echo_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> echo_long_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void info_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void ping_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> ping_long_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void quit_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> reset_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void select_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_config.cc
Coroutine<void> config_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_backup.cc
Coroutine<void> backup_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_login.cc
Coroutine<void> auth_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> hello_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_client.cc
Coroutine<void> client_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_submit.cc
void submit_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void open_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
// Whether a command is to be executed in slices, by its other function: it has many bytes or
// payloads, or names many batches after which it starts.
bool is_long(const proto::Command& command);
Coroutine<void> submit_long_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> open_long_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void add_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void addat_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void close_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> run_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_read.cc
void status_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> wait_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> results_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void list_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_jobs.cc
Coroutine<void> job_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> log_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> running_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_inspect.cc
void explain_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void handlers_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void active_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void nodes_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> tenants_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> workers_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_customer.cc
void customer_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_control.cc
void cancel_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> retry_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void handler_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void forget_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void pause_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void resume_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void slots_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void weight_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

// commands_transaction.cc
void multi_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> exec_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void discard_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void watch_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
void unwatch_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
// Queues a command that passes the checks of the command table, or refuses it. Needs: a transaction
// is open.
void queue_command(Session& session, proto::Command& command, const proto::CommandSpec& spec)
    LOCKSLEY_REQUIRES(kIoThread);

// commands_events.cc
Coroutine<void> subscribe_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> unsubscribe_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> psubscribe_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
Coroutine<void> punsubscribe_command(Session& session, proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
