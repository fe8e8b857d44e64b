// What the hash of a password looks like, and how much a check of it may cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::config {

// A hash is argon2id in the form that all tools write: $argon2id$v=19$m=47104,t=2,p=1$<salt>$<hash>, with
// salt and hash in base64 without padding. Other forms are refused: a password that somebody wrote instead of
// its hash would look like one that nobody ever gives right.
//
// A check takes m KiB of memory and the time of m * t, and a stranger can cause one: so both are bounded, to
// less than a second (measured: 0.7 ms a MiB and pass).
inline constexpr std::uint64_t kMostHashMemoryKib = 262'144;
inline constexpr std::uint64_t kMostHashPasses = 64;
inline constexpr std::uint64_t kMostHashWork = 1'048'576;  // m * t
inline constexpr std::uint64_t kMostHashLanes = 64;

// What is wrong with it, to come after "found"; the text itself, which may be a password, is not shown.
// Nothing: it is a hash.
std::optional<std::string> fault_of_hash(std::string_view text);

}  // namespace locksley::config
