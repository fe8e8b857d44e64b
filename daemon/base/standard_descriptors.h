// For a program that was started with one of the descriptors 0, 1 and 2 closed.
#pragma once

namespace locksley::daemon {

// What happens to text written to a standard output or standard error that was closed.
enum class ClosedOutput {
  kIsDropped,  // of a daemon
  kIsError,    // of a program that is run for its output
};

// Opens /dev/null under each of the numbers 0, 1 and 2 that is closed, as after `2>&-`. Otherwise a
// socket or a file of the store would get that number, and the log would be written into it. Called
// at the start of main(), before any thread is started or another descriptor is opened. If
// /dev/null cannot be opened, nothing happens.
void open_standard_descriptors(ClosedOutput output);

}  // namespace locksley::daemon
