// Finding a batch by the id that a client gives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// find_batch() and find_own_batch() return null if there is no such batch. The error is the text of
// the error reply: the batch may exist, but cannot be read. The pointer is valid as long as that of
// Registry::find(). The I/O thread only. They block while they read a batch from the store that is
// over and no longer in memory; first_to_load() says whether they would.

// The user's own batch with this id; batches of other users are not found. An admin finds its own
// first, then `user/id`, then the only batch with this id. But if it has forgotten its own batch
// with this id (ForgottenIds), the error is a NOBATCH that says so.
Registry::Found find_batch(Registry& registry, const User& by, std::string_view id)
    LOCKSLEY_REQUIRES(kIoThread);
// Whether the batch that find_batch() would return is in memory alone, so that no change of it is
// written to the store. False if there is no such batch, or if only the disk can tell. Never
// blocks.
bool is_in_memory_alone(Registry& registry, const User& by, std::string_view id) LOCKSLEY_REQUIRES(kIoThread);
// The batch that find_batch() would load from the store first; 0: it would load none. Never blocks.
std::uint64_t first_to_load(const Registry& registry, const User& by, std::string_view id)
    LOCKSLEY_REQUIRES(kIoThread);
// The text of find_own_batch()'s error.
std::string cannot_look_up(std::string_view why);
// The tenant's own batch of this id.
Registry::Found find_own_batch(Registry& registry, const Tenant& tenant, std::string_view id)
    LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
