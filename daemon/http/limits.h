// Bounds on the resources of a client of the HTTP side.
#pragma once

#include <chrono>
#include <cstddef>

namespace locksley::daemon {

// All values are guesses: wide for people and scrapers, narrow for abuse.
struct HttpLimits {
  // One more takes the place of another (places.h); if none gives way, it is one of the reserved.
  std::size_t max_connections = 64;
  std::size_t reserved_connections = 8;  // beyond these; for /healthz and /readyz only
  std::size_t max_head_bytes = 16384;    // request line and fields
  std::size_t max_body_bytes = 4096;     // of a change: a few words of JSON
  // From the first byte of a head to its last; for a new connection, from its start. Also for a
  // body.
  std::chrono::milliseconds head_timeout{10'000};
  // To identify the caller: longer than passwords may wait for their check
  // (daemon/auth/check_queue.h).
  std::chrono::milliseconds login_timeout{15'000};
  // For a page that replies later: a store that takes longer counts as failing, and the reply says
  // so.
  std::chrono::milliseconds answer_timeout{30'000};
  // Between requests. Prometheus scrapes at least once a minute.
  std::chrono::milliseconds idle_timeout{120'000};
  std::chrono::milliseconds write_timeout{30'000};  // for the client to take a whole reply
  std::chrono::milliseconds linger_timeout{1'000};  // for the client to close after our last byte
  // In this time a client at work sends its request, or takes some bytes of its reply. When all
  // places are taken, a client that needs longer gives way sooner.
  std::chrono::milliseconds stall_timeout{5'000};
};

}  // namespace locksley::daemon
