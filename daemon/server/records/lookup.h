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
// the error reply: the batch may exist, but cannot be read. The pointer lives as Registry::find()
// says. The I/O thread only. They block where a batch that is over and has left the memory is read
// from the store; first_to_load() says whether they would.

// The user's own batch of this id. Batches of other users do not exist. An admin finds its own
// first, then `user/id`, then the only one of this id; but not by an id of which it has forgotten
// its own batch (ForgottenIds): the error is then a NOBATCH that says so.
Registry::Found find_batch(Registry& registry, const User& by, std::string_view id)
    LOCKSLEY_REQUIRES(kIoThread);
// Whether the batch that find_batch() would return is in memory alone, so that no change of it is
// written to the store. False if there is none, or if only the disk could tell. Never blocks.
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
