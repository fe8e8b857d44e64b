// How the values of HTTP's fields are read.
#pragma once

#include <string_view>

namespace locksley::daemon {

// Without the blanks and tabs around it.
std::string_view trimmed(std::string_view text);

// What stands before the first `separator`, trimmed; it and the separator are taken off `rest`. All of it, if
// there is no separator. Quotes mean nothing.
std::string_view take_part(std::string_view& rest, char separator);

}  // namespace locksley::daemon
