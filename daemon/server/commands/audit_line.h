// The audit's line about a command of a session.
#pragma once

#include "daemon/base/loop/io_thread.h"
#include "proto/command_reader.h"
#include "proto/command_table.h"

namespace locksley::daemon {

class Session;

// Begins the line, if the command changes something: a command with the flag kWrite, CONFIG SET and
// RELOAD, CLIENT KILL, HANDLER RESTART, CUSTOMER SET and DEL; and for BACKUP. Called before the
// command is executed, which may take its arguments.
void begin_audit_line(Session& session, const proto::Command& command, const proto::CommandSpec& spec)
    LOCKSLEY_REQUIRES(kIoThread);
// Writes the line that was begun, if there is one, once the command has its reply.
void end_audit_line(Session& session) LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
