// Who asks for a page.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/config.h"

namespace locksley::daemon {

// What a page may show and do for whoever asks.
struct HttpCaller {
  enum class Kind {
    anybody,  // nobody was asked to log in: as on the wire, who gets here may do all
    user,
    token,  // a program with the token: it may see everything, and change nothing
  };
  Kind kind = Kind::anybody;
  std::string user = {};                          // by name
  std::vector<config::CommandGroup> groups = {};  // of the user

  bool may(config::CommandGroup group) const {
    switch (kind) {
      case Kind::anybody:
        return true;
      case Kind::token:
        return group == config::CommandGroup::kRead;
      case Kind::user:
        break;
    }
    return std::ranges::find(groups, group) != groups.end();
  }

  // What is everybody's: all batches, all tenants' numbers. Others see what is theirs.
  bool sees_all() const { return kind != Kind::user || may(config::CommandGroup::kAdmin); }
};

}  // namespace locksley::daemon
