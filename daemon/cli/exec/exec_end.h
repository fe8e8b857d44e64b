// How a job of `locksley exec` ended: its result, as exit status, signal and output.
#pragma once

#include <string>
#include <string_view>

#include "proto/clients/cpp/values.h"

namespace locksley::cli {

// How a job of `exec` ended, as its row says. The views point into the row.
struct ExecEnd {
  std::string_view status;
  std::string_view output;  // of the program, whether it failed or not
  std::string_view reason;  // why it is not ok, with the end of its standard error; empty: it is
  // The exit value in the sense of GNU parallel: -1 after a timeout, 127 for a program that cannot
  // be started.
  int exit_value = 0;
  int signal = 0;  // the signal that ended it; 0: none

  static ExecEnd of(const client::ResultRow& row);

  bool is_ok() const { return status == "ok"; }
  bool is_cancelled() const { return status == "cancelled"; }
  // The reason for people; empty if an exit status says everything. `errors`: the program's
  // standard error, which the user sees already.
  std::string message(std::string_view errors) const;
  // The exit status that a shell would report for this job: 128 + the signal, if a signal ended it.
  int shell_status() const;
};

}  // namespace locksley::cli
