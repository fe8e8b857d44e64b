#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locksley::config {

// The name that the author of `written` most likely meant: the one with the smallest edit distance
// (letters added, omitted, changed or swapped with their neighbour; case ignored). Empty if none is
// near enough. Ties go to the first.
std::string nearest_name(std::string_view written, std::span<const std::string> names);

}  // namespace locksley::config
