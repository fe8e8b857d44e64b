#pragma once

#include <algorithm>
#include <string_view>

namespace locksley::daemon {

// Names that clients give themselves appear in the lines of CLIENT LIST: printable ASCII without spaces. An
// empty one takes the name away.
inline bool is_client_name(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

inline constexpr std::string_view kBadClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

}  // namespace locksley::daemon
