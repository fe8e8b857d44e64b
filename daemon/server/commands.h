#pragma once

#include <string_view>

#include "daemon/server/io.h"
#include "proto/command_reader.h"

// The commands' functions, by file; dispatch.cc puts them into its table. What each does is said in the
// protocol's contract.

namespace locksley::daemon {

class Session;

class BatchRecord;

// The batch of this id that the user may see; null after an error reply. commands_read.cc
BatchRecord* batch_of(Session& session, std::string_view id);

// commands_connection.cc
void command_command(Session& session, proto::Command& command);
void echo_command(Session& session, proto::Command& command);
void info_command(Session& session, proto::Command& command);
void ping_command(Session& session, proto::Command& command);
void quit_command(Session& session, proto::Command& command);
void reset_command(Session& session, proto::Command& command);
void select_command(Session& session, proto::Command& command);

// commands_config.cc
Coroutine<void> config_command(Session& session, proto::Command command);

// commands_login.cc
Coroutine<void> auth_command(Session& session, proto::Command command);
Coroutine<void> hello_command(Session& session, proto::Command command);

// commands_client.cc
Coroutine<void> client_command(Session& session, proto::Command command);

// commands_submit.cc
void submit_command(Session& session, proto::Command& command);
void open_command(Session& session, proto::Command& command);
void add_command(Session& session, proto::Command& command);
void close_command(Session& session, proto::Command& command);
Coroutine<void> run_command(Session& session, proto::Command command);

// commands_read.cc
void status_command(Session& session, proto::Command& command);
Coroutine<void> wait_command(Session& session, proto::Command command);
Coroutine<void> results_command(Session& session, proto::Command command);
void list_command(Session& session, proto::Command& command);

// commands_inspect.cc
void explain_command(Session& session, proto::Command& command);
void handlers_command(Session& session, proto::Command& command);
void tenants_command(Session& session, proto::Command& command);
void workers_command(Session& session, proto::Command& command);

// commands_control.cc
void cancel_command(Session& session, proto::Command& command);
void retry_command(Session& session, proto::Command& command);
void forget_command(Session& session, proto::Command& command);
void pause_command(Session& session, proto::Command& command);
void resume_command(Session& session, proto::Command& command);
void weight_command(Session& session, proto::Command& command);

// commands_events.cc
void subscribe_command(Session& session, proto::Command& command);
void unsubscribe_command(Session& session, proto::Command& command);
void psubscribe_command(Session& session, proto::Command& command);
void punsubscribe_command(Session& session, proto::Command& command);

}  // namespace locksley::daemon
