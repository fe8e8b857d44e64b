// Texts of error replies that several commands have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace locksley::daemon {

// There is no batch of this id.
std::string no_such_batch(std::string_view id);
// The batch `id` has so many jobs, and none of the index that the command names.
std::string no_such_job(std::string_view id, std::uint64_t jobs);
// The store refused a write, for this reason.
std::string not_stored(std::string_view why);

}  // namespace locksley::daemon
