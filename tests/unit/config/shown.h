// Problems as a person sees them, to be compared with what was expected.
#pragma once

#include <string>
#include <vector>

#include "config/problem.h"

namespace locksley::config {

// One a line.
inline std::string shown(const std::vector<Problem>& problems) {
  std::string result;
  for (const Problem& problem : problems) result += to_string(problem) + "\n";
  return result;
}

}  // namespace locksley::config
