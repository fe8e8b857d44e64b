// EXEC: executes the commands that were queued since MULTI.
#pragma once

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"

namespace locksley::daemon {

class Session;

// Executes the commands of the session's transaction, which is open and not spoiled, one after
// another; other connections have their turns in between. Writes one reply, the array of their
// replies. Ends early if the connection is dropped.
Coroutine<void> run_transaction(Session& session) LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
