#include "daemon/store/postgres/fence.h"

#include <spdlog/logger.h>

#include "daemon/base/log_line.h"

namespace locksley::daemon {

void Fence::be_fenced() {
  if (is_fenced_.exchange(true)) return;
  LogLine("store: another daemon has taken over: this one writes nothing any more")
      .with("store", place_)
      .write(*log_, spdlog::level::critical);
  if (on_fenced_) on_fenced_();
}

}  // namespace locksley::daemon
