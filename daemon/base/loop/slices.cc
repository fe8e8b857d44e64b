#include "daemon/base/loop/slices.h"

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
  is_running_ = true;
  while (!lines_.empty() && at < end) {
    auto [line, work] = lines_.pop();
    slice_end_ = std::min(end, at + kSlice);
    if (!work(slice_end_)) lines_.push(line, std::move(work));
    at = now();
  }
  is_running_ = false;
  used_ = at - began;
  // The next round has its time anew.
  if (!lines_.empty() || used_ >= kSlice) {
    arm();
  } else {
    used_ = {};
  }
}

}  // namespace locksley::daemon
