// The form of a password's hash, and the limits of the cost of a check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::config {

// A hash is argon2id in the form that all tools write:
// $argon2id$v=19$m=47104,t=2,p=1$<salt>$<hash>, with salt and hash in base64 without padding. Other
// forms are refused: a plain password in place of its hash would make every login fail.
//
// A check takes m KiB of memory and time in proportion to m * t, and a stranger can cause one. So
// both are limited, to less than a second (measured: 0.7 ms for each MiB and pass).
inline constexpr std::uint64_t kMostHashMemoryKib = 262'144;
inline constexpr std::uint64_t kMostHashPasses = 64;
inline constexpr std::uint64_t kMostHashWork = 1'048'576;  // m * t
inline constexpr std::uint64_t kMostHashLanes = 64;

// What is wrong with the text, to follow "found"; none if it is a hash. The text itself may be a
// password and is not shown.
std::optional<std::string> fault_of_hash(std::string_view text);

}  // namespace locksley::config
