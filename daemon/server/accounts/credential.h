// How a peer proved that it is its user, and when that proof counts no more. Any thread; nothing
// blocks or fails.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/server/accounts/users.h"

namespace locksley::daemon {

// How a peer proved that it is its user.
enum class Credential : std::uint8_t {
  kNone,  // not at all: no users are configured
  kPassword,
  kCertificate,
};

// Why a connection that this credential logged in as `before` must be dropped, now that the same
// user is `current`; empty: it may stay. A change of the user's other credential does not count.
inline std::string_view objection_to(Credential credential, const User& before, const User& current) {
  switch (credential) {
    case Credential::kPassword:
      if (current.password_hash() != before.password_hash()) return "its user's password has changed";
      break;
    case Credential::kCertificate:
      if (current.certificate() != before.certificate()) return "its user's certificate has changed";
      break;
    case Credential::kNone:
      break;
  }
  return {};
}

}  // namespace locksley::daemon
