#pragma once

// What the two programs, locksleyd and locksley, tell their caller when they end. The values are those of
// sysexits.h where one fits, so that scripts and service managers need no table of ours.

namespace locksley::daemon {

enum ExitCode : int {
  kExitOk = 0,            // all went well; for `locksley run`: every job was ok
  kExitJobsFailed = 1,    // the command worked, but a job ended otherwise than ok, or the batch was cancelled
  kExitUsage = 2,         // wrong options or arguments; nothing was done
  kExitDataError = 65,    // refused (EX_DATAERR): no such batch, handler, ..., or an empty password
  kExitNoInput = 66,      // an input file cannot be read (EX_NOINPUT)
  kExitUnavailable = 69,  // the daemon cannot be reached, or is draining (EX_UNAVAILABLE)
  kExitSoftware = 70,     // a bug (EX_SOFTWARE)
  kExitIoError = 74,      // an output cannot be written (EX_IOERR)
  kExitTemporary = 75,    // try again: queue limits reached, or the time given ran out (EX_TEMPFAIL)
  kExitProtocol = 76,     // the other side does not speak the protocol (EX_PROTOCOL)
  kExitNoPermission = 77,  // wrong or missing credentials (EX_NOPERM)
  kExitConfig = 78,        // the configuration is wrong (EX_CONFIG)
  kExitInterrupted = 130,  // ended by Ctrl-C, as shells say it: 128 + SIGINT
  kExitBrokenPipe = 141,   // the reader of standard output went away: 128 + SIGPIPE
  kExitTerminated = 143,   // ended by SIGTERM: 128 + SIGTERM
};

}  // namespace locksley::daemon
