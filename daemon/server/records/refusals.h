// Texts of error replies that several commands have in common. Any thread; nothing blocks or fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace locksley::daemon {

// There is no batch of this id.
std::string no_such_batch(std::string_view id);
// The batch `id` has so many jobs, and none of the index that the command names.
std::string no_such_job(std::string_view id, std::uint64_t jobs);
// A command that would add to the store is refused at once, because the store refused an earlier
// write, for this reason.
std::string cannot_store(std::string_view why);
// The store refused the write of a command that was accepted, for this reason.
std::string not_stored(std::string_view why);

}  // namespace locksley::daemon
