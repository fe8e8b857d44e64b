// A command as a line of bash, and back.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// A command on one line, as a person would type it in bash: a word is quoted where it needs quotes,
// as $'…' if it has control characters. Plain functions; nothing blocks.
std::string quoted_command(std::span<const std::string> words);

// The opposite, for the lines of a joblog. Fails with kInput for a line that only a shell could
// carry out, with a pipe or a variable in it: no shell is ever started for it.
client::Expected<std::vector<std::string>> split_command(std::string_view line);

}  // namespace locksley::cli
