// How a command is called, in one line, from its row in the table of commands.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "proto/command_table.h"

namespace locksley::proto {

// The arguments as text, with `separator` between them: "customer [WEIGHT weight]", "ON|OFF". Many
// options in a row are written as "[option ...]". Any thread; pure.
std::string syntax(std::span<const ArgumentDoc> arguments, std::string_view separator = " ");

}  // namespace locksley::proto
