// The caller of a page.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/config.h"

namespace locksley::daemon {

// The identity of a caller, which decides what a page may show and do. A value.
struct HttpCaller {
  enum class Kind {
    kAnybody,  // no login is configured: as on the wire, every caller may do everything
    kUser,
    kToken,  // a program with the token: sees everything, changes nothing
  };
  Kind kind = Kind::kAnybody;
  std::string user = {};                          // by name
  std::vector<config::CommandGroup> groups = {};  // of the user

  bool may(config::CommandGroup group) const {
    switch (kind) {
      case Kind::kAnybody:
        return true;
      case Kind::kToken:
        return group == config::CommandGroup::kRead;
      case Kind::kUser:
        break;
    }
    return std::ranges::find(groups, group) != groups.end();
  }

  // Whether the caller sees all batches and the numbers of all tenants. Other callers see only
  // their own.
  bool sees_all() const { return kind != Kind::kUser || may(config::CommandGroup::kAdmin); }
};

}  // namespace locksley::daemon
