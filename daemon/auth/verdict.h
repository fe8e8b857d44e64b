// The answer of the Authenticator. A plain value.
#pragma once

#include <cstdint>

namespace locksley::daemon {

// The outcome of the check of a password.
enum class Verdict : std::uint8_t {
  kAccepted,
  // Wrong password, no such user, or a user without password. The client cannot tell which of
  // these, not even by the time that the check took.
  kRefused,
  kBusy,  // too many checks wait: retry later
};

}  // namespace locksley::daemon
