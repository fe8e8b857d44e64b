// The program `locksley`, after main().
#pragma once

#include <string>
#include <vector>

namespace locksley::cli {

// Runs the program: takes the arguments without the program's name, and returns the exit status,
// one of daemon/base/exit_codes.h. Call it once, from the main thread, before any other thread is
// started.
int run_program(std::vector<std::string> arguments);

}  // namespace locksley::cli
