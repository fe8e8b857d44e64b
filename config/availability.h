#pragma once

#include <vector>

#include "config/config.h"
#include "config/origins.h"
#include "config/problem.h"

namespace locksley::config {

// One problem for each use of a feature that the configuration knows and this build does not have. Only the
// table in availability.cc lists these features; a build that gains a feature removes its line.
std::vector<Problem> find_unavailable(const Config& config, const Origins& origins = {});

}  // namespace locksley::config
