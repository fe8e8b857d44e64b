// Texts of error replies that several commands have in common.
#pragma once

#include <string>
#include <string_view>

namespace locksley::daemon {

// There is no batch of this id.
std::string no_such_batch(std::string_view id);
// The store refused a write, for this reason.
std::string not_stored(std::string_view why);

}  // namespace locksley::daemon
