#pragma once

#include <string_view>

namespace locksley::proto {

// Whether the whole of `text` matches `pattern`, as in Redis: `*` any run of bytes, `?` one byte, `[abc]`,
// `[a-z]`,
// `[^a]` one byte of a set, `\x` the byte x itself. Bytes, case-sensitive. Time is at most the product of the
// lengths, whatever the pattern; no memory.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace locksley::proto
