// EXEC: executes what was queued since MULTI.
#include <fmt/format.h>

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

}  // namespace

// The reply of EXEC while its commands are executed: replies are parts of it, whether they are
// wanted or not.
class Session::ExecReply {
 public:
  explicit ExecReply(Session& session) : session_(session), mode_(session.info_.reply_mode) {
    // CLIENT REPLY SKIP is about the whole EXEC, not about its first command.
    if (mode_ == ReplyMode::kSkipping) session_.info_.reply_mode = ReplyMode::kOff;
    session_.output_.begin_whole();
  }
  ~ExecReply() {
    session_.output_.end_whole();
    session_.info_.reply_mode = mode_;
  }
  ExecReply(const ExecReply&) = delete;
  ExecReply& operator=(const ExecReply&) = delete;

  std::size_t size() const { return session_.output_.whole_bytes(); }

 private:
  Session& session_;
  const ReplyMode mode_;
};

Coroutine<void> Session::run_transaction() {
  transaction_.run();
  const CommandExecutor& executor = sessions_.executor();
  const std::uint64_t most = state_.config().limits.output_buffer.count / 2;
  const ExecReply exec(*this);
  reply().array(transaction_.size());
  Instant began = now();
  while (transaction_.size() != 0 && !is_dropped()) {
    proto::Command command = transaction_.next();
    const proto::CommandSpec* spec = nullptr;
    write_gate_.next_command();
    if (wait_unless_room_to_write(command)) {
      const bool may_go_on = co_await await([&] {
        kIoThread.assert_held();
        return !wait_unless_room_to_write(command);
      });
      if (!may_go_on) {
        executor.finish(*this, command);
        break;
      }
    }
    if (exec.size() > most) {
      fail(no_room_error(most));
    } else if (executor.execute(*this, command, spec) == CommandExecutor::Executed::kBlocks) {
      co_await executor.execute_blocking(*this, spec->id, command);
    }
    executor.finish(*this, command);
    update_memory();
    if (now() - began <= kTurnTime) continue;
    co_await wait_for_slice();
    began = now();
  }
  transaction_.close();
}

}  // namespace locksley::daemon
