#pragma once

#include <asio/io_context.hpp>
#include <functional>

namespace locksley::daemon {

// Runs `io` on the calling thread until it is stopped, as io.run() does. Between two pieces of work it polls
// for a while before it blocks, where that has proved worth while (core/adaptive_spin.h) and `may_poll` says
// that it takes nothing from others. While the clients are silent it blocks.
void run_io_loop(asio::io_context& io, const std::function<bool()>& may_poll);

}  // namespace locksley::daemon
