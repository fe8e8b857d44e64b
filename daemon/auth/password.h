// What of a password is kept: argon2id, in the encoded form that all tools share,
// $argon2id$v=19$m=47104,t=2,p=1$<salt>$<hash>. The form is config/password_hash.h's to check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace locksley::daemon {

// What a hash costs; README.md says how these were chosen.
struct HashCost {
  std::uint32_t memory_kib = 47'104;
  std::uint32_t passes = 2;
};

// Longer ones are no passwords, for hashing or for checking: what a stranger sends should stay small.
inline constexpr std::size_t kLongestPassword = 1024;

// Makes the hash of a password, with a salt of its own. Any thread; takes as long as `cost` makes it.
// The error is of a password that is empty or too long, or of memory that cannot be had.
std::expected<std::string, std::string> hash_password(std::string_view password, HashCost cost = {});

// Whether it is the password of this hash. Any thread; takes as long as the hash makes it. False if the hash
// is not in the form above, or if the memory for it cannot be had.
bool is_password_of(const std::string& hash, std::string_view password);

// A hash at the default cost that no password is known for: to take as long as a check does.
std::string decoy_hash();

}  // namespace locksley::daemon
