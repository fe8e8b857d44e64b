#pragma once

#include <string>

#include "config/config.h"

namespace locksley::config {

// The configuration as YAML, every key with the value in force, defaults included. load_text() of it gives an
// equal Config, provided that the configuration is valid. Password hashes are in it as they were in the file.
std::string dump(const Config& config);

}  // namespace locksley::config
