#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace locksley::config {

// The configuration as YAML: every key with the value in force, defaults included. After `auto`, a
// comment gives the value that follows from the machine. load_text() of it gives an equal Config,
// provided that the configuration is valid. It contains the password hashes.
std::string dump(const Config& config);
// A copy without the password in store.url, to be shown.
Config without_password(Config config);

// The same as pairs of dotted key and value, in the order of the file, without the secret hashes of
// passwords, and without the password in store.url. Keys that dump() leaves out are left out here,
// too.
std::vector<std::pair<std::string, std::string>> list_values(const Config& config);

}  // namespace locksley::config
