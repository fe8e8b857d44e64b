// The size of a cache line.
#pragma once

#include <cstddef>

namespace locksley {

// The unit in which processors pass memory between caches: data that two threads write is kept this
// far apart.
// std::hardware_destructive_interference_size is 64 here too, but may change with compiler flags
// and with it the layout of public types.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace locksley
