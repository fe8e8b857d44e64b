#pragma once

#include <cstddef>
#include <string_view>

namespace locksley::proto {

// What a pattern from a peer may have, so that matching it with a name takes some microseconds at most;
// guess.
inline constexpr std::size_t kMaxGlobBytes = 256;

// Whether the whole of `text` matches `pattern`, as in Redis: `*` any run of bytes, `?` one byte, `[abc]`,
// `[a-z]`,
// `[^a]` one byte of a set, `\x` the byte x itself. Bytes, case-sensitive. Time is at most the product of the
// lengths, whatever the pattern; no memory.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace locksley::proto
