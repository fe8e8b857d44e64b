// From outputs to the files of `--results`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/cli/names/path_template.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// The files of `--results`: one for each job that was ok. Used by one thread. Blocks for the file
// system; fails with kLocal, and the path.
class ResultFiles {
 public:
  explicit ResultFiles(PathTemplate paths) : paths_(std::move(paths)) {}

  const PathTemplate& paths() const { return paths_; }
  // Makes the folder that the user named, so that it is there even if no job is ok.
  client::Expected<void> begin();
  // Makes the folders of the path, and replaces what is there. Returns the path.
  client::Expected<std::string> write(std::uint64_t index, std::string_view name, std::string_view output);

 private:
  client::Expected<void> make_folder(const std::string& folder);

  const PathTemplate paths_;
  std::string last_folder_;  // was made, or found
};

}  // namespace locksley::cli
