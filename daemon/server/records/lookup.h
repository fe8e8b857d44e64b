// Finding a batch by the id that a client gives.
#pragma once

#include <string_view>

#include "daemon/base/io_thread.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// Null if there is none; the error is that of the reply: the batch may be there, but cannot be read. The
// pointer lives as Registry::find() says. The I/O thread only. A batch that is over and has left the memory
// is read from the disk.

// The user's own batch of this id. Batches of other users do not exist. An admin finds its own first, then
// `user/id`, then the only one of this id.
Registry::Found find_batch(Registry& registry, const User& by, std::string_view id)
    LOCKSLEY_REQUIRES(kIoThread);
// The tenant's own.
Registry::Found find_own_batch(Registry& registry, const Tenant& tenant, std::string_view id)
    LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
