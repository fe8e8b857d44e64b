#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace locksley::daemon {

// Names that clients give themselves appear in the lines of CLIENT LIST: printable ASCII without spaces, not
// too long. An empty one takes the name away.
inline bool is_client_name(std::string_view name) {
  constexpr std::size_t kMaxBytes = 256;  // guess
  return name.size() <= kMaxBytes && std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

// As Redis words it, also of a name that is too long.
inline constexpr std::string_view kBadClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

}  // namespace locksley::daemon
