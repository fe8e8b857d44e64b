#include "daemon/network/network_metrics.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace locksley::daemon {

void read_network_metrics(const NetworkThreads* network, Families& families) {
  if (network == nullptr) return;
  Family connections = Family::gauge("locksley_network_thread_connections",
                                     "Connections of the client port whose bytes this thread moves.");
  Family waits = Family::counter(
      "locksley_network_lock_waits_total",
      "Times that one of the two sides waited for a mutex between the I/O thread and this thread.");
  Family wakeups =
      Family::counter("locksley_network_wakeups_total",
                      "Times that the I/O thread had something for this thread, and found it asleep.");
  for (std::size_t i = 0; i < network->threads().size(); ++i) {
    const NetworkThread::Stats& stats = network->threads()[i]->stats();
    const std::string thread = std::to_string(i + 1);
    connections.add({{"thread", thread}}, stats.connections.get());
    waits.add({{"thread", thread}, {"side", "io"}}, stats.io_waits.get());
    waits.add({{"thread", thread}, {"side", "network"}}, stats.network_waits.get());
    wakeups.add({{"thread", thread}}, stats.wakeups.get());
  }
  Family large =
      Family::gauge("locksley_network_large_buffers",
                    "Buffers of 64 KiB between the I/O thread and the network threads; at most 1024.");
  large.add({}, std::uint64_t{network->large_buffers().taken()});
  std::move(connections).move_to(families);
  std::move(large).move_to(families);
  std::move(waits).move_to(families);
  std::move(wakeups).move_to(families);
}

}  // namespace locksley::daemon
