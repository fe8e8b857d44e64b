#include "daemon/server/records/refusals.h"

#include <fmt/format.h>

#include "proto/text.h"

namespace locksley::daemon {

std::string cannot_store(std::string_view why) {
  return fmt::format("STORE the write to the disk failed: nothing was accepted; retry later ({})", why);
}

std::string not_stored(std::string_view why) {
  return fmt::format(
      "STORE the write to the disk failed: nothing was accepted; retry later. "
      "A change to an existing batch holds, and is written later ({})",
      why);
}

std::string no_such_batch(std::string_view id) {
  return fmt::format("NOBATCH there is no batch '{}': unknown, or forgotten", proto::printable(id));
}

std::string no_such_job(std::string_view id, std::uint64_t jobs) {
  if (jobs == 0) return fmt::format("ERR the batch '{}' has no jobs", id);
  return fmt::format("ERR the batch '{}' has {} jobs: 0 to {}", id, jobs, jobs - 1);
}

}  // namespace locksley::daemon
