#include "daemon/server/accounts/account.h"

#include <fmt/format.h>

namespace locksley::daemon {

std::string Account::key(Resource resource) const {
  const ResourceName& names = kResourceNames[static_cast<std::size_t>(resource)];
  if (parent_ == nullptr) return std::string(names.limit_all);
  return prefix_ + std::string(names.limit);
}

std::string_view what_makes_room(Resource resource) {
  if (resource == Resource::kQueuedBytes)
    return "; to make room, FORGET finished batches with failed jobs: they may keep a pattern for RETRY";
  if (resource == Resource::kRecordBytes)
    return "; to make room, FORGET finished batches, or RETAIN them for less time";
  if (resource == Resource::kStoredBytes)
    return "; to make room, FORGET finished batches, RETAIN them for less time, or drop results that were "
           "read (RESULTS ... DISCARD)";
  return {};
}

std::string queue_full_text(std::string_view limit, std::uint64_t most, const Account& full,
                            Resource resource) {
  std::string text = fmt::format("QUEUEFULL {} is {}", limit, most);
  if (most < full.limit(resource)) {
    text += fmt::format(" now, as much as all others have left of {}", full.parent()->key(resource));
  }
  return text + fmt::format(", and {} are in use", full.used(resource));
}

std::string results_at_limit(const Account& account) {
  const bool is_own = account.results().bytes() >= account.results().limit() || account.parent() == nullptr;
  const Account& full = is_own ? account : *account.parent();
  return fmt::format(
      "TOOBIG results in memory: {} bytes, and {} is {}: forget batches, or use SUBMIT and RESULTS",
      full.results().bytes(), full.key_of_results(), full.results().limit());
}

std::string failures_at_limit(const Account& account) {
  const bool is_own = account.failures().bytes() >= account.failures().limit() || account.parent() == nullptr;
  const Account& full = is_own ? account : *account.parent();
  return fmt::format(
      "QUEUEFULL {} bytes are kept about failed jobs, and half of {} is {}: nothing was accepted, try again "
      "when batches with failed jobs have ended, or FORGET or CANCEL them",
      full.failures().bytes(), full.key_of_results(), full.failures().limit());
}

}  // namespace locksley::daemon
