// A secret of its own that stands for a program, in a file.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "daemon/auth/secret.h"

namespace locksley::daemon {

// Shorter ones could be guessed: a right token is answered at once, so nothing slows down who tries.
inline constexpr std::size_t kShortestToken = 16;
inline constexpr std::size_t kLongestToken = 4096;

// The token that a file holds, without the white space at its end. The error names the file and says what to
// do: it cannot be read, everybody can read it, it holds nothing, or what no request could carry. Blocks as
// long as the file takes.
std::expected<Secret, std::string> read_token(const std::string& file);

// Takes a time that does not tell where they differ.
bool is_same(const Secret& token, std::string_view given);

}  // namespace locksley::daemon
