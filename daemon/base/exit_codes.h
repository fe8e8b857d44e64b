// The exit codes of the two programs, locksleyd and locksley. Where a code of sysexits.h fits, the
// programs use it, because scripts and service managers know these codes.
#pragma once

namespace locksley::daemon {

enum ExitCode : int {
  kExitOk = 0,             // success; for `locksley run`: every job was ok
  kExitJobsFailed = 1,     // the command worked, but a job did not end ok, or the batch was cancelled
  kExitUsage = 2,          // wrong options or arguments; nothing was done
  kExitDataError = 65,     // refused (EX_DATAERR): no such batch, handler, ..., or an empty password
  kExitNoInput = 66,       // an input file cannot be read (EX_NOINPUT)
  kExitUnavailable = 69,   // the daemon cannot be reached, or is draining (EX_UNAVAILABLE)
  kExitSoftware = 70,      // a bug (EX_SOFTWARE)
  kExitStore = 72,         // the store cannot be used, and starting again does not help (EX_OSFILE)
  kExitIoError = 74,       // an output, or at the daemon's end the store, cannot be written (EX_IOERR)
  kExitTemporary = 75,     // retry later: a queue limit was reached, the daemon cannot write its store, or a
                           // timeout expired (EX_TEMPFAIL)
  kExitProtocol = 76,      // the other side does not speak the protocol (EX_PROTOCOL)
  kExitNoPermission = 77,  // wrong or missing credentials (EX_NOPERM)
  kExitConfig = 78,        // the configuration is wrong (EX_CONFIG)
  kExitInterrupted = 130,  // ended by Ctrl-C, as in shells: 128 + SIGINT
  kExitBrokenPipe = 141,   // the reader of standard output closed it: 128 + SIGPIPE
  kExitTerminated = 143,   // ended by SIGTERM: 128 + SIGTERM
  // Of `locksley exec`, as of GNU parallel: a code up to 100 is the number of jobs that failed.
  kExitManyJobsFailed = 101,  // more than 100
  kExitExecFailed = 255,      // not a job's failure: wrong options, no daemon, a file that cannot be written
};

}  // namespace locksley::daemon
