#include "daemon/server/io_loop.h"

#include "core/adaptive_spin.h"

namespace locksley::daemon {

void run_io_loop(asio::io_context& io, const IoLoopQuestions& questions) {
  AdaptiveSpin for_workers;
  AdaptiveSpin for_clients;
  while (!io.stopped()) {
    if (io.poll() != 0) continue;
    AdaptiveSpin& spin = questions.awaits_worker() ? for_workers : for_clients;
    if (spin.look(questions.may_poll(), [&io] { return io.poll() != 0 || io.stopped(); })) continue;
    io.run_one();
    spin.slept();
  }
}

}  // namespace locksley::daemon
