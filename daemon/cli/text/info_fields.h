// The text of INFO as pairs. Any thread; nothing blocks or fails.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locksley::cli {

// The `key:value` lines of INFO's text, in their order; all other lines are ignored.
std::vector<std::pair<std::string, std::string>> info_fields(std::string_view text);

}  // namespace locksley::cli
