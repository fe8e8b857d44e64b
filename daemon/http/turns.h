// When a request has its turn on the I/O thread.
#pragma once

#include <chrono>
#include <functional>

#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/http/caller.h"

namespace locksley::daemon {

// Requests are long work (Slices), each in the line of its user: however many connections one user
// has, another user's request or command waits for only one of their requests. While there are few
// requests, each has its turn at once.
//
// A plain value, of the I/O thread. `slices` outlives every run of the io_context.
struct HttpTurns {
  Slices& slices;
  // In whose line the caller waits. A caller that was not asked to log in:
  // HttpCaller::Kind::kAnybody.
  std::function<LineNumber(const HttpCaller&)> line_of;

  // What a request costs besides its page: the head is parsed, and the reply is sent. Measured on
  // loopback, about.
  static constexpr std::chrono::microseconds kAroundPage{20};
};

}  // namespace locksley::daemon
