#pragma once

#include <string>
#include <vector>

namespace locksley::cli {

// The whole program but for the process: arguments in (without the program's name), exit status out, as
// daemon/exit_codes.h has them. To be called once, from the main thread, before any other is started.
int run_program(std::vector<std::string> arguments);

}  // namespace locksley::cli
