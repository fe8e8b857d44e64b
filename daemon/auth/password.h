// Hashes of passwords: argon2id, in the encoding that all tools share,
// $argon2id$v=19$m=47104,t=2,p=1$<salt>$<hash>. config/password_hash.h checks the form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace locksley::daemon {

// The cost of a hash. README.md says how the defaults were chosen.
struct HashCost {
  std::uint32_t memory_kib = 47'104;
  std::uint32_t passes = 2;
};

// hash_password() and the Authenticator refuse longer passwords: clients that have not logged in
// may send little only.
inline constexpr std::size_t kLongestPassword = 1024;

// The hash of a password, with a new random salt. Any thread; blocks for as long as `cost` demands.
// The error says that the password is empty or too long, or that the memory for the hash could not
// be allocated.
std::expected<std::string, std::string> hash_password(std::string_view password, HashCost cost = {});

// Whether the hash is that of this password. Any thread; blocks for as long as the cost of the hash
// demands. False also if the hash is malformed, or if the memory for it could not be allocated.
bool is_password_of(const std::string& hash, std::string_view password);

// A hash of the default cost that matches no known password: checking it takes as long as a real
// check.
std::string decoy_hash();

}  // namespace locksley::daemon
