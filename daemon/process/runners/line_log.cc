#include "daemon/process/runners/line_log.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

void LineLog::add(std::string_view bytes, const Batch* batch) {
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    line_.append(bytes.substr(0, std::min(end, kLongestLine - std::min(kLongestLine, line_.size()))));
    if (end == bytes.size()) return;
    write(batch);
    bytes.remove_prefix(end + 1);
  }
}

void LineLog::end(const Batch* batch) {
  if (!line_.empty()) write(batch);
}

void LineLog::write(const Batch* batch) {
  if (lines_.open(now())) {
    LogLine line("worker wrote");
    batch != nullptr ? line.about(*batch) : line.with("handler", handler_);
    line.with("unlogged", lines_.held_back()).with("stderr", line_);
    line.write(*log_, spdlog::level::info);
  }
  line_.clear();
}

}  // namespace locksley::daemon
