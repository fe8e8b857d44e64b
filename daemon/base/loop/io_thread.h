// The I/O thread as a role that clang checks: state that only this thread may touch is annotated
// with LOCKSLEY_GUARDED_BY(kIoThread).
#pragma once

#include "core/sync/thread_role.h"

namespace locksley::daemon {

// The role of the I/O thread: the one thread that runs the io_context of the daemon, and with it
// the connections of the client port and the HTTP port and all that they share. (The port for
// remote workers has a thread of its own.) main()'s thread has the role for its whole life, since
// it builds the parts before the io_context runs, and destroys them after it. While the daemon
// stands by, the thread of Standby has the role, too, for ports and a ServerState of its own.
//
// The record of a batch and the parts that deal with batches have their state guarded by this role;
// every function that reaches such state requires it. Handlers of Asio and other callbacks assert
// that they have it. Not annotated, because only their owners reach them, and these are: plain
// containers and accounts (DueQueue, Tenants, RetainedBatches), and the state of a single
// connection.
inline constexpr ThreadRole kIoThread;

}  // namespace locksley::daemon
