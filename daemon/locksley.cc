// The command-line client: `locksley --help`. What it does is in daemon/cli/.

#include <cstdio>
#include <exception>

#include "daemon/base/exit_codes.h"
#include "daemon/base/standard_descriptors.h"
#include "daemon/cli/program.h"

int main(int argc, char** argv) {
  locksley::daemon::open_standard_descriptors(locksley::daemon::ClosedOutput::kIsError);
  try {
    return locksley::cli::run_program({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "locksley: %s\n", error.what());
    return locksley::daemon::kExitSoftware;
  }
}
