// How a job of `locksley exec` ended: its result, as exit status, signal and output.
#pragma once

#include <string>
#include <string_view>

#include "proto/clients/cpp/values.h"

namespace locksley::cli {

// How a job of `exec` ended, as its row has it. Views into the row.
struct ExecEnd {
  std::string_view status;
  std::string_view output;  // of the program, whether it failed or not
  std::string_view reason;  // why it is not ok, with the end of its standard error; empty: it is
  // As GNU parallel has it: -1 after a time-out, 127 for a program that cannot be started.
  int exit_value = 0;
  int signal = 0;  // that ended it

  static ExecEnd of(const client::ResultRow& row);

  bool is_ok() const { return status == "ok"; }
  bool is_cancelled() const { return status == "cancelled"; }
  // The reason for people; empty if an exit status says everything. `errors`: the program's
  // standard error, which they see already.
  std::string message(std::string_view errors) const;
  // For the exit status of a program that reports this job's.
  int shell_status() const;
};

}  // namespace locksley::cli
