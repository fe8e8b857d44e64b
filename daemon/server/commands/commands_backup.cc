// BACKUP: a copy of the store, made while it serves.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/server_state.h"
#include "daemon/store/store.h"

namespace locksley::daemon {
namespace {

// The progress of one BACKUP. Shared by the command and by the callbacks of the store, which may
// come after the connection has gone. The I/O thread only.
struct BackupProgress {
  std::optional<std::string> written;  // the outcome of the marker: an error of the store, or empty
  std::optional<Backups::Result> result;
};

// The error reply, if no backup can be made; empty: a backup can be made.
std::string backup_refusal(const ServerState& state, const std::string& name) LOCKSLEY_REQUIRES(kIoThread) {
  const Store* const store = state.store();
  if (store == nullptr) return "ERR there is no store: store.path is empty, so there is nothing to back up";
  if (const std::string_view reason = store->why_no_copies(); !reason.empty()) {
    return "ERR " + std::string(reason);
  }
  return Backups::problem_of(state.config().store.backup_directory, name);
}

}  // namespace

Coroutine<void> backup_command(Session& session, proto::Command& command) {
  ServerState& state = session.state();
  const std::string name(command.arguments[1]);
  if (const std::string refusal = backup_refusal(state, name); !refusal.empty()) {
    session.fail(refusal);
    co_return;
  }
  const auto progress = std::make_shared<BackupProgress>();
  const std::weak_ptr<Session> waiting = session.weak_from_this();
  // The copy must have all results that clients have read; some of them may wait for the disk for
  // some milliseconds.
  state.held_replies().hold(state.store()->put_marker(), [progress, waiting](const std::string& error) {
    progress->written = error;
    if (const auto alive = waiting.lock()) alive->wake();
  });
  const auto is_written = [progress] { return progress->written.has_value(); };
  if (!co_await session.waits().await(is_written)) co_return;
  if (!progress->written->empty()) {
    session.fail("STORE the backup was not made: the store cannot be written (" + *progress->written + ")");
    co_return;
  }
  const auto begun = state.store()->back_up(
      state.config().store.backup_directory, name,
      [progress, waiting, &mailbox = IoMailbox::of(state.io())](Backups::Result result) {
        mailbox.post([progress, waiting, result = std::move(result)]() mutable {
          progress->result = std::move(result);
          if (const auto alive = waiting.lock()) alive->wake();
        });
      });
  if (!begun) {
    session.fail(begun.error());
    co_return;
  }
  const auto is_over = [progress] { return progress->result.has_value(); };
  if (!co_await session.waits().await(is_over)) co_return;
  if (const Backups::Result& result = *progress->result; result) {
    session.reply().bulk(*result);
  } else {
    session.fail(result.error());
  }
}

}  // namespace locksley::daemon
