// Parsing of the values of HTTP fields.
#pragma once

#include <string_view>

namespace locksley::daemon {

// The text without leading and trailing blanks and tabs.
std::string_view trimmed(std::string_view text);

// Removes the part of `rest` before the first `separator`, and the separator, and returns the part
// trimmed. Without a separator the part is all of `rest`. Quotes have no meaning.
std::string_view take_part(std::string_view& rest, char separator);

}  // namespace locksley::daemon
