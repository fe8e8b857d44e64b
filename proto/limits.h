// How much memory a peer may make a CommandReader use, in bytes and numbers of arguments.
#pragma once

#include <cstddef>

namespace locksley::proto {

// How much memory a peer may make the command reader use. A plain value that the reader copies. The
// reader checks every announced length against it before it stores a byte.
//
// The defaults of the first group are those of Redis, for which stock clients are written.
struct Limits {
  static constexpr std::size_t kKiB = 1024;
  static constexpr std::size_t kMiB = 1024 * kKiB;

  std::size_t max_arguments = 2147483647;    // Redis: INT_MAX; more is "invalid multibulk length"
  std::size_t max_bulk_bytes = 512 * kMiB;   // Redis: proto-max-bulk-len; more is "invalid bulk length"
  std::size_t max_inline_bytes = 64 * kKiB;  // Redis: PROTO_INLINE_MAX_SIZE; more is "too big inline request"
  // Bytes of one command with its framing; Redis: client-query-buffer-limit.
  std::size_t max_command_bytes = 1024 * kMiB;

  // False: tighter limits, with other error texts, until the peer is authenticated (Redis PR 9588,
  // CVE-2021-32675). The longest command that a stock client sends before it is authenticated has 7
  // arguments.
  bool authenticated = true;

  static constexpr std::size_t kUnauthenticatedArguments = 10;
  static constexpr std::size_t kUnauthenticatedBulkBytes = 16384;

  static constexpr Limits before_authentication() {
    Limits limits;
    limits.authenticated = false;
    limits.max_command_bytes = kMiB;
    return limits;
  }
};

}  // namespace locksley::proto
