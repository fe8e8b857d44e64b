// The writer's thread as a role that clang checks.
#pragma once

#include "core/sync/thread_role.h"

namespace locksley::daemon {

// The role of the one thread that writes to an engine: GroupCommit's thread; before that thread
// starts, and after it has ended, the thread that opens, repairs or destroys the Engine.
inline constexpr ThreadRole kStoreWriter;

}  // namespace locksley::daemon
