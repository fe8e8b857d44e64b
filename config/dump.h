#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace locksley::config {

// The configuration as YAML, every key with the value in force, defaults included. load_text() of it gives an
// equal Config, provided that the configuration is valid. Password hashes are in it as they were in the file.
std::string dump(const Config& config);

// The same as pairs of dotted key and value, in the order of the file; but for what is secret: the hashes of
// passwords. What dump() leaves out is not there.
std::vector<std::pair<std::string, std::string>> list_values(const Config& config);

}  // namespace locksley::config
