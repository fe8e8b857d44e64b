// Commands for GNU parallel or xargs that `locksley exec` would run as something else.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locksley::cli {

// How a command with a pipe or a variable is written.
inline constexpr std::string_view kNeedsShell =
    "A command with a pipe or a variable needs a shell: locksley exec -- sh -c 'sort \"$1\" | uniq' _ {}";

// Why a command of `locksley exec` is refused before any job runs; empty: it is not. It is refused
// if
//
// - it has a replacement string that only GNU parallel has, such as {%}: it would be taken as text;
// - its program is a line for a shell: it has spaces or the shell's operators, and names no file. A
//   path from the root with spaces or parentheses is accepted, as the file may exist only on the
//   machine of the daemon;
// - the script after -c of a shell has a replacement string: an argument, such as the name of a
//   file, would be executed as a part of the script. A script that is only {} is allowed: there the
//   argument is meant as a script.
//
// `directory`: the folder in which the commands run. Any thread; blocks only to look for the
// program in the file system.
std::string problem_with_exec_command(std::span<const std::string> words, std::string_view directory);

}  // namespace locksley::cli
