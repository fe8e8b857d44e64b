// check(): an assertion that is always on. Any thread.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace locksley {

// A condition that does not hold is a bug of this program, never an outcome that a caller could
// handle: it is printed to standard error with its place, and the process aborts.
inline void check(bool condition, const char* what,
                  std::source_location where = std::source_location::current()) {
  if (condition) [[likely]] {
    return;
  }
  std::fprintf(stderr, "%s:%u: bug: %s\n", where.file_name(), static_cast<unsigned>(where.line()), what);
  std::abort();
}

}  // namespace locksley
