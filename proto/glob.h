// Glob patterns, as LIST, CUSTOMER LIST, PSUBSCRIBE and CONFIG GET take them. Any thread; nothing
// blocks or fails.
#pragma once

#include <cstddef>
#include <string_view>

namespace locksley::proto {

// Longest pattern that a peer may send. Guess: a match with a name takes some microseconds at most.
inline constexpr std::size_t kMaxGlobBytes = 256;

// True if the whole of `text` matches `pattern`, as in Redis: `*` any run of bytes, `?` one byte,
// `[abc]`, `[a-z]`, `[^a]` one byte of a set, `\x` the byte x itself. Bytes, case-sensitive. For
// every pattern the time is at most proportional to the product of the lengths. No allocation.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace locksley::proto
