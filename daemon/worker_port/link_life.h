// A number of this process of the daemon.
#pragma once

#include <cstdint>
#include <random>

namespace locksley::daemon {

// A number for this process of the daemon, so that leases of an earlier process are not taken for
// its own; not 0. Any thread.
inline std::uint64_t random_life() {
  std::random_device device;
  const std::uint64_t life = (std::uint64_t{device()} << 32) | device();
  return life == 0 ? 1 : life;
}

}  // namespace locksley::daemon
