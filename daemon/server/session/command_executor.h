// The interface to the commands.
#pragma once

#include <cstdint>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "proto/command_reader.h"
#include "proto/command_table.h"

namespace locksley::daemon {

class Session;

// Executes the commands that a session reads. An interface, so that sessions need not know the
// commands: the implementation is the Dispatcher of daemon/server/commands.
//
// Owned by the Server; outlives all sessions, which share it. The I/O thread only. Errors are
// replies.
class CommandExecutor {
 public:
  enum class Executed : std::uint8_t {
    kDone,    // executed or refused; the reply is written
    kBlocks,  // execute_blocking() is to be awaited with the command
  };

  virtual ~CommandExecutor() = default;

  // Finds the command, makes the checks of the command table, and executes it. Sets `spec` to its
  // entry in the table; leaves `spec` alone if there is no such command. May take the arguments out
  // of the command. Never blocks.
  virtual Executed execute(Session& session, proto::Command& command,
                           const proto::CommandSpec*& spec) const = 0;
  // What the command may write to the store. A command that writes waits for room (WriteCharges). A
  // command about a batch that is in memory alone writes nothing.
  enum class Writes : std::uint8_t {
    kNothing,
    kChange,  // of a batch that there is; of the changes of a batch in one group only the last is written
    kMore,
  };
  // O(options), or O(users) for an admin. Never blocks.
  virtual Writes writes(Session& session, const proto::Command& command) const
      LOCKSLEY_REQUIRES(kIoThread) = 0;
  // For a command that execute() said blocks: may suspend until the command has its reply. May take
  // the arguments out of the command, which outlives it. finish() comes afterwards.
  virtual Coroutine<void> execute_blocking(Session& session, proto::CommandId id,
                                           proto::Command& command) const = 0;
  // Called once the command has its reply, or will not be executed. Frees its remaining memory: on
  // another thread if that is much.
  virtual void finish(Session& session, proto::Command& command) const LOCKSLEY_REQUIRES(kIoThread) = 0;
};

}  // namespace locksley::daemon
