// `locksleyd --check-config`: whether a daemon could start with this configuration. Main's thread,
// in a process that serves nothing.
#pragma once

#include "config/config.h"

namespace locksley::daemon {

struct ConfigSource;

// Prints the configuration in effect, and warnings about what a start would find. Returns the exit
// code: kExitConfig if the daemon could not start with it. Reads the files and loads the plugins
// that the configuration names.
int check_config(const config::Config& config, const ConfigSource& source);

}  // namespace locksley::daemon
