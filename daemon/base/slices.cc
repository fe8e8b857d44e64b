#include "daemon/base/slices.h"

#include <algorithm>
#include <asio/post.hpp>

namespace locksley::daemon {

void Slices::arm() {
  if (std::exchange(is_armed_, true)) return;
  asio::post(executor_, [this] { run(); });
}

void Slices::run() {
  is_armed_ = false;
  const Instant began = now();
  const Instant end = began + kRound;
  Instant at = began;
  while (!line_.empty() && at < end) {
    Work work = std::move(line_.front());
    line_.pop_front();
    if (!work(std::min(end, at + kSlice))) line_.push_back(std::move(work));
    at = now();
  }
  used_ = at - began;
  // The next round has its time anew.
  if (!line_.empty() || used_ >= kSlice) {
    arm();
  } else {
    used_ = {};
  }
}

}  // namespace locksley::daemon
