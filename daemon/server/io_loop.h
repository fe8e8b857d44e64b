#pragma once

#include <asio/io_context.hpp>
#include <functional>

namespace locksley::daemon {

// What the loop asks before it waits. I/O thread; cheap.
struct IoLoopQuestions {
  std::function<bool()> may_poll;       // whether polling takes nothing from others
  std::function<bool()> awaits_worker;  // whether a client waits for something that a worker does
};

// Runs `io` on the calling thread until it is stopped, as io.run() does. Between two pieces of work it polls
// for a while before it blocks, where that has proved worth while (core/adaptive_spin.h); and it learns that
// apart for waits for a worker, which are short, and for waits for clients, which may be long. While the
// clients are silent it blocks.
void run_io_loop(asio::io_context& io, const IoLoopQuestions& questions);

}  // namespace locksley::daemon
