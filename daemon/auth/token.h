// Bearer tokens: a secret in a file, by which a program authenticates. Any thread.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "daemon/auth/secret.h"

namespace locksley::daemon {

// Shorter tokens could be guessed: a right token is accepted at once, and only wrong ones are
// slowed down (daemon/http/login.h).
inline constexpr std::size_t kShortestToken = 16;
inline constexpr std::size_t kLongestToken = 4096;

// Reads a token from a file, without the white space at its end. The error names the file and says
// what to do: the file is unreadable, every user can read it, it is empty, or the token is too
// short, too long or not a token68. Blocks on the file.
std::expected<Secret, std::string> read_token(const std::string& file);

// Compares in a time that does not depend on where the two differ.
bool is_same(const Secret& token, std::string_view given);

}  // namespace locksley::daemon
