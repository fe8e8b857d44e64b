#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace locksley::config {

// `prefix` and `name` as a dotted key, such as limits.max_clients.
std::string dotted(std::string_view prefix, std::string_view name);

// All keys of schema.h, dotted, in the order of the file: `handlers` and `users` without their
// entries, sections without a line of their own.
std::vector<std::string> all_keys();

}  // namespace locksley::config
