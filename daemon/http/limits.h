// Bounds on what a client of the HTTP side may cost.
#pragma once

#include <chrono>
#include <cstddef>

namespace locksley::daemon {

// All guesses: wide for people and scrapers, narrow for abuse.
struct HttpLimits {
  std::size_t max_connections = 64;    // one more closes the one that has been idle longest, else is refused
  std::size_t max_head_bytes = 16384;  // request line and fields
  std::size_t max_body_bytes = 4096;   // of a change that a page asks for: a few words of JSON
  // From the first byte of a head to its last; for a new connection, from its start. The same for a body.
  std::chrono::milliseconds head_timeout{10'000};
  // To find out who asks: as long as passwords may wait for their turn (daemon/auth/check_queue.h), and more.
  std::chrono::milliseconds login_timeout{15'000};
  // For a reply that comes later: a store that takes longer is as good as failing.
  std::chrono::milliseconds answer_timeout{30'000};
  // Between requests. Prometheus scrapes each minute or oftener.
  std::chrono::milliseconds idle_timeout{120'000};
  std::chrono::milliseconds write_timeout{30'000};  // to take a whole reply
  std::chrono::milliseconds linger_timeout{1'000};  // to close after our last byte
};

}  // namespace locksley::daemon
