#pragma once

#include <string_view>

namespace locksley::cli {

// The parts of a name of a file, as the replacement strings of GNU parallel have them. Views into it.
std::string_view base_of(std::string_view name);
// As dirname(1).
std::string_view folders_of(std::string_view name);
// The extension begins at the last dot, as long as no slash follows.
std::string_view without_extension(std::string_view name);

}  // namespace locksley::cli
