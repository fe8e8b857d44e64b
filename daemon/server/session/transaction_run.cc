#include "daemon/server/session/transaction_run.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/server/session/session.h"
#include "daemon/server/session/sessions.h"

namespace locksley::daemon {

namespace {

using ReplyMode = ClientInfo::ReplyMode;

// The replies of all commands are one reply. So limits.output_buffer must have room for all of them
// together, while the replies of a pipeline can be sent one after another.
std::string no_room_error(std::uint64_t limit) {
  return fmt::format(
      "TOOBIG the command was not executed: the replies of this EXEC have more than {} bytes, half of "
      "limits.output_buffer",
      limit);
}

// The reply of EXEC while its commands are executed: their replies are parts of it, even if the
// client does not want them.
class ExecReply {
 public:
  explicit ExecReply(Session& session)
      : info_(session.info()), output_(session.replies().output()), mode_(info_.reply_mode) {
    // CLIENT REPLY SKIP is about the whole EXEC, not about its first command.
    if (mode_ == ReplyMode::kSkipping) info_.reply_mode = ReplyMode::kOff;
    output_.begin_whole();
  }
  ~ExecReply() {
    output_.end_whole();
    info_.reply_mode = mode_;
  }
  ExecReply(const ExecReply&) = delete;
  ExecReply& operator=(const ExecReply&) = delete;

  std::size_t size() const { return output_.whole_bytes(); }

 private:
  ClientInfo& info_;
  SessionOutput& output_;
  const ReplyMode mode_;
};

}  // namespace

Coroutine<void> run_transaction(Session& session) {
  Transaction& transaction = session.transaction();
  transaction.run();
  const CommandExecutor& executor = session.sessions().executor();
  const std::uint64_t most = session.state().config().limits.output_buffer.count / 2;
  const ExecReply exec(session);
  session.reply().array(transaction.size());
  Instant began = now();
  while (transaction.size() != 0 && !session.is_dropped()) {
    proto::Command command = transaction.next();
    const proto::CommandSpec* spec = nullptr;
    session.input().gate().next_command();
    if (session.wait_unless_room_to_write(command)) {
      const bool may_go_on = co_await session.waits().await([&] {
        kIoThread.assert_held();
        return !session.wait_unless_room_to_write(command);
      });
      if (!may_go_on) {
        executor.finish(session, command);
        break;
      }
    }
    if (exec.size() > most) {
      session.fail(no_room_error(most));
    } else if (executor.execute(session, command, spec) == CommandExecutor::Executed::kBlocks) {
      co_await executor.execute_blocking(session, spec->id, command);
    }
    executor.finish(session, command);
    session.memory().update();
    if (now() - began <= Session::kTurnTime) continue;
    co_await session.waits().wait_for_slice();
    began = now();
  }
  transaction.close();
}

}  // namespace locksley::daemon
