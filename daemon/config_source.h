// Where the configuration comes from, and its loading with all problems named.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace locksley::daemon {

// Where the configuration of this process comes from: a file, and the options of the command line
// that stand for keys of it. A plain value; the start and each reload use the same one, so an
// option holds as long as the process.
struct ConfigSource {
  std::string file;      // empty: all keys have their defaults
  bool is_made = false;  // by a program (`locksley work`): messages leave out its name and positions
  std::optional<std::uint16_t> port;       // --port, in place of listen.port
  std::optional<std::uint16_t> http_port;  // --http-port, in place of http.port
};

// Reads the file and applies the options. The file must be right by itself, and the result by the
// same rules: an option that contradicts another key is a problem. Returns all problems, each one
// line for people. Any thread; blocks for the file.
std::expected<config::Config, std::vector<std::string>> load(const ConfigSource& source);

// Problems that were found later, such as a program that is not there: those that begin with a key
// of the file get its name and the key's position, as those of load() have them, unless is_made.
// Any thread; blocks for the file.
std::vector<std::string> with_positions(const ConfigSource& source, std::vector<std::string> problems);

}  // namespace locksley::daemon
