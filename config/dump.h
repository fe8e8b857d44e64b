#pragma once

#include <cstddef>
#include <optional>
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

// The same as pairs of dotted key and value, in the order of the file, but without the hashes of
// passwords and the password in store.url. Leaves out the same keys as dump().
using Values = std::vector<std::pair<std::string, std::string>>;
Values list_values(const Config& config);

// list_values() for a caller that must not work for long, in parts. If another configuration comes
// into force between two parts, the next part is taken from that one.
class ValueParts {
 public:
  // The lanes, handlers and users of one part, at most: some 100 us.
  static constexpr std::size_t kMostEntries = 32;

  // Appends the next part. True: it was the last.
  bool read_some(const Config& config, Values& into);

 private:
  friend class DottedPairs;
  struct Place {
    std::size_t map = 0;  // of the maps of lanes, of handlers and of users, from 1; 0: before all
    std::optional<std::string> after;  // the last entry of it that was listed, if one was
  };
  Place next_;
};

}  // namespace locksley::config
