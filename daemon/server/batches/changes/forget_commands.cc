#include "daemon/server/batches/changes/forget_commands.h"

#include <fmt/format.h>

#include "daemon/server/accounts/tenants.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/batches/changes/dependencies.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/awaited_deletions.h"
#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

std::optional<Ticket> ForgetCommands::forget(BatchRecord& record, const User& by) {
  if (!record.is_over() || parts_.dependencies.is_notifying(record.sequence)) return std::nullopt;
  // This thread may not have applied the batch's end yet.
  parts_.apply_news(record);
  if (by.is_admin() && &parts_.registry.tenant_of(record) == &by.tenant())
    parts_.registry.admin_forgot(by.tenant(), record.id());
  const auto ticket = parts_.retention.forget(record, Urgency::kAwaited);
  parts_.charges.charge(by.tenant().account, ticket.value_or(0), kCostOfWrite);
  parts_.deletions.put(ticket.value_or(0));
  return ticket;
}

std::expected<Ticket, std::string> ForgetCommands::forget_nothing() const {
  if (parts_.store == nullptr || parts_.store->has_deletions(parts_.deletions.failed()))
    return parts_.deletions.last();
  return std::unexpected(
      fmt::format("STORE the disk cannot be written: an earlier FORGET is not on it yet, so the batch may be "
                  "there again after a crash; retry later ({})",
                  parts_.store->error()));
}

}  // namespace locksley::daemon
