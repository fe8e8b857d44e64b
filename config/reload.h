#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace locksley::config {

// The effect of a new configuration on a daemon that runs with an old one.
struct Reload {
  std::vector<std::string> live;  // changed keys that take effect at once, dotted, in the order of the file
  std::vector<std::string> file;  // those of `live` that only the file may set
  std::vector<std::string> restart;  // changed keys that wait for a restart
  Config effective;                  // in force now: the new configuration with the old values of `restart`
};

// Which of the parts that may be long differ: to compare thousands of users takes milliseconds.
struct ChangedParts {
  bool users = false;  // for limits that are `auto`, their values count (derive_limits())
  bool customers = false;
};
ChangedParts changed_parts(const Config& old_config, const Config& new_config);

// Each entry of `handlers` and `users` is one key, such as handlers.lines.
Reload diff_reloadable(const Config& old_config, const Config& new_config);

}  // namespace locksley::config
