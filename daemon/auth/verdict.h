#pragma once

#include <cstdint>

namespace locksley::daemon {

// What becomes of a password that was given.
enum class Verdict : std::uint8_t {
  kAccepted,
  kRefused,  // wrong password, no such user, or a user without password: nobody can tell which, by time
             // either
  kBusy,     // too many wait to be checked: try again
};

}  // namespace locksley::daemon
