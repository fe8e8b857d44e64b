#include "daemon/server/io_loop.h"

#include "core/adaptive_spin.h"

namespace locksley::daemon {

void run_io_loop(asio::io_context& io, const std::function<bool()>& may_poll) {
  AdaptiveSpin spin;
  while (!io.stopped()) {
    if (io.poll() != 0) continue;
    if (spin.look(may_poll(), [&io] { return io.poll() != 0 || io.stopped(); })) continue;
    io.run_one();
    spin.slept();
  }
}

}  // namespace locksley::daemon
