// Finds a command, makes the checks that the command table asks for, calls its function.
#pragma once

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/session/command_executor.h"

namespace locksley::daemon {

// Executes the commands of the protocol. Finds each in the command table, makes the checks of the
// table (permission, number of arguments, length of words, whether it may be sent while
// subscribed), and calls its function (commands.h), which makes the checks that depend on the
// arguments. It has no state.
class Dispatcher final : public CommandExecutor {
 public:
  Executed execute(Session& session, proto::Command& command, const proto::CommandSpec*& spec) const override;
  Writes writes(Session& session, const proto::Command& command) const override LOCKSLEY_REQUIRES(kIoThread);
  Coroutine<void> execute_blocking(Session& session, proto::CommandId id,
                                   proto::Command& command) const override;
  void finish(Session& session, proto::Command& command) const override LOCKSLEY_REQUIRES(kIoThread);

 private:
  // Executes the command once the batch that it names is in memory, or there is none
  // (Batches::first_to_load()).
  static Coroutine<void> load_and_execute(Session& session, proto::CommandId id, proto::Command& command)
      LOCKSLEY_REQUIRES(kIoThread);
};

}  // namespace locksley::daemon
