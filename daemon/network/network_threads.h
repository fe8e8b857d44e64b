// The threads of `listen.threads`, and which connection each has.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/network/network_thread.h"
#include "daemon/network/ready_relays.h"
#include "daemon/network/relay_buffer.h"
#include "daemon/network/relay_end.h"
#include "daemon/tls/channel.h"

namespace locksley::daemon {

// The threads that `listen.threads` has besides the I/O thread, and which of them has which
// connection.
//
// Owned by ServingParts (daemon/parts.h); the io_context outlives it, and runs no more when it is
// destroyed. The I/O thread only. Nothing blocks but stop() and the destructor, which wait for the
// threads. Only start() fails.
class NetworkThreads {
 public:
  // `count`: at least 1. `may_look`: as IoLoopHooks::may_poll; called by the threads.
  NetworkThreads(IoExecutor executor, std::uint32_t count, const std::function<bool()>& may_look);
  // stop().
  ~NetworkThreads();
  NetworkThreads(const NetworkThreads&) = delete;
  NetworkThreads& operator=(const NetworkThreads&) = delete;

  // Before the first connection. The error is a sentence.
  std::expected<void, std::string> start() LOCKSLEY_REQUIRES(kIoThread);
  // The threads execute their orders, close the remaining connections, and end. Afterwards no
  // connection may be given to them.
  void stop() LOCKSLEY_REQUIRES(kIoThread);

  // Gives a connection to the thread that has the fewest. `socket`: non-blocking, its own from here
  // on. `tls`: null: plain; the handshake is over. `owner` outlives the result.
  std::unique_ptr<RelayEnd> take_over(int socket, std::unique_ptr<TlsChannel> tls, RelayOwner& owner)
      LOCKSLEY_REQUIRES(kIoThread);

  // For metrics.
  const std::vector<std::unique_ptr<NetworkThread>>& threads() const { return threads_; }

  const LargeBuffers& large_buffers() const { return large_; }

 private:
  LargeBuffers large_;
  ReadyRelays ready_;
  std::vector<std::unique_ptr<NetworkThread>> threads_;
};

// Null: listen.threads is 1. The error is a sentence.
std::expected<std::unique_ptr<NetworkThreads>, std::string> start_network_threads(
    IoExecutor executor, const config::Listen& listen, const std::function<bool()>& may_look)
    LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
