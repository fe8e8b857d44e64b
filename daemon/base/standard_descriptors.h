#pragma once

namespace locksley::daemon {

// What becomes of what is written to a standard output or a standard error that was closed.
enum class ClosedOutput {
  kIsDropped,  // of a daemon
  kIsError,    // of a program that is run for its output
};

// Opens /dev/null under each of the numbers 0, 1 and 2 that is closed, as after `2>&-`. Otherwise a socket or a file of the store gets that
// number, and the log is written into it. At the start of main(), before another descriptor is opened.
void open_standard_descriptors(ClosedOutput output);

}  // namespace locksley::daemon
