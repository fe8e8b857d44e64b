#pragma once

#include <functional>
#include <map>
#include <string>

#include "config/problem.h"

namespace locksley::config {

// The position and the text of a key's value in the file.
struct Origin {
  Position position;
  std::string text;      // as in "found ..."
  bool is_valid = true;  // false: a problem was reported, and the default is used instead
};

// The origins of the keys in the file, by dotted key.
using Origins = std::map<std::string, Origin, std::less<>>;

}  // namespace locksley::config
