#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locksley::config {

// The name that `written` is most likely a slip of the pen for: fewest letters added, left out, changed or
// swapped with their neighbour, letter case apart. Empty if none is near enough to be worth saying. Ties go
// to the first.
std::string nearest_name(std::string_view written, std::span<const std::string> names);

}  // namespace locksley::config
