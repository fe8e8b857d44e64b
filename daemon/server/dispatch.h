#pragma once

#include <cstdint>

#include "daemon/server/io.h"
#include "proto/command_reader.h"
#include "proto/command_table.h"

namespace locksley::daemon {

class Session;

// What executes a command: one of the two is set. Both write exactly one reply to the session (subscriptions:
// one a channel) and may take the arguments out of the command. They run on the I/O thread and do not block
// it; `blocking` may suspend.
struct CommandHandler {
  void (*execute)(Session& session, proto::Command& command) = nullptr;
  Coroutine<void> (*blocking)(Session& session, proto::Command command) = nullptr;
};

const CommandHandler& handler_of(proto::CommandId id);

enum class Dispatched : std::uint8_t {
  kDone,    // executed or refused; the reply is written
  kBlocks,  // handler_of(spec->id).blocking is to be awaited with the command
};

// Finds the command, checks what the table says of it (arity, whether it may be sent now) and executes it.
// `spec` is set to what was found, or left alone.
Dispatched dispatch(Session& session, proto::Command& command, const proto::CommandSpec*& spec);

// The subcommand that a command's second argument names; null after an error reply, if there is none or the
// number of arguments is wrong.
const proto::SubcommandSpec* subcommand_of(Session& session, const proto::Command& command,
                                           proto::CommandId container);

}  // namespace locksley::daemon
