#include "daemon/process/line_log.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>

#include "proto/text.h"

namespace locksley::daemon {

void LineLog::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    line_.append(bytes.substr(0, std::min(end, kLongestLine - std::min(kLongestLine, line_.size()))));
    if (end == bytes.size()) return;
    write();
    bytes.remove_prefix(end + 1);
  }
}

void LineLog::end() {
  if (!line_.empty()) write();
}

void LineLog::write() {
  const Nanoseconds now = steady_now();
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    lines_ = 0;
  }
  if (lines_ == kMostLines) {
    ++held_back_;
  } else {
    ++lines_;
    log_->info("worker handler={} unlogged={} stderr=\"{}\"", handler_, std::exchange(held_back_, 0),
               proto::printable(line_));
  }
  line_.clear();
}

}  // namespace locksley::daemon
