#include "daemon/store/postgres/fence.h"

#include <spdlog/logger.h>

#include "daemon/base/log/log_line.h"

namespace locksley::daemon {

void Fence::be_fenced() {
  if (is_fenced_.exchange(true)) return;
  LogLine("store: another daemon has taken over: this one writes nothing any more")
      .with("store", place_)
      .write(*log_, spdlog::level::critical);
  if (on_fenced_) on_fenced_();
}

void Fence::be_set_back(std::int64_t acknowledged, std::int64_t committed) {
  if (is_fenced_.exchange(true)) return;
  LogLine(
      "store: the database has lost groups that were acknowledged: this daemon writes nothing any more; the "
      "next start reads what the database has")
      .with("store", place_)
      .with("lost_groups", acknowledged - committed)
      .with("last_acknowledged", acknowledged)
      .with("last_in_database", committed)
      .write(*log_, spdlog::level::critical);
  if (on_fenced_) on_fenced_();
}

}  // namespace locksley::daemon
