// Where `locksley exec --results` writes outputs.
#pragma once

#include <string>
#include <string_view>

#include "daemon/cli/exec/exec_job.h"
#include "daemon/cli/names/path_template.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// The files of `--results` of `locksley exec`, as GNU parallel writes them. In a folder:
// DIR/1/ARGUMENT/stdout, stderr and seq, with /2/ARGUMENT in between for a second argument, and so
// on. With a path with replacement strings: that path for the output, the same path with .err for
// standard error, and with .seq for the job's number. An argument in the name of a folder has ++
// for +, +z for /, +b for \, +t for a tab, +d for each dot of `.` and `..`, and the job's number in
// its place if it would be too long or empty.
//
// Used by one thread. Blocks for the file system; fails with kLocal, and the path.
class ExecFiles {
 public:
  explicit ExecFiles(std::string_view text) : paths_(PathTemplate::parse(text)) {}

  client::Expected<void> write(const ExecJob& job, std::string_view output, std::string_view errors);

  // The argument as the name of a folder.
  static std::string folder_of(std::string_view argument, std::uint64_t number);

 private:
  const PathTemplate paths_;
};

}  // namespace locksley::cli
