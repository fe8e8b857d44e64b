#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace locksley::config {

// What a new configuration changes in a daemon that runs on an old one.
struct Reload {
  std::vector<std::string> live;  // changed keys that take effect at once, dotted, in the order of the file
  std::vector<std::string> file;  // of these, those that the file alone may say, one by one
  std::vector<std::string> restart;  // changed keys that wait for a restart
  Config effective;  // the new configuration with the old values of `restart`: what is now in force
};

// Of `handlers` and `users` each entry is one key, handlers.lines say.
Reload diff_reloadable(const Config& old_config, const Config& new_config);

}  // namespace locksley::config
