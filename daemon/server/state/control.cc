#include "daemon/server/state/control.h"

#include <fmt/format.h>

#include "daemon/server/accounts/customer_name.h"
#include "daemon/server/batches/batches.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

std::expected<std::uint64_t, std::string> control(Batches& batches, const User& by, BatchRecord& record,
                                                  Control what, const ControlArguments& arguments) {
  Account& payer = by.tenant().account;
  if (what == Control::kRetry) {
    if (const std::string& handler = record.handler().name(); !by.may_use(handler)) {
      return std::unexpected(no_handler_permission_error(by, handler));
    }
    return batches.intake().retry(record, payer, {arguments.round, arguments.indexes}, arguments.failures);
  }
  if (record.is_over()) return 0;
  switch (what) {
    case Control::kPause:
      batches.changes().pause(record, payer);
      break;
    case Control::kResume:
      batches.changes().resume(record, payer);
      break;
    case Control::kWeight:
      batches.changes().set_weight(record, payer, arguments.weight);
      break;
    case Control::kSlots:
      batches.changes().set_slots(record, payer, arguments.slots);
      break;
    case Control::kCancel:
      return batches.changes().cancel(record, payer, "cancelled by request");
    case Control::kRetry:
      break;
  }
  return 0;
}

std::expected<Ticket, std::string> set_customer(ServerState& state, const User& by, std::string_view customer,
                                                const proto::CustomerSettings& changes) {
  const auto named = customer_named(state.batches().registry().tenants(), by, customer);
  if (!named) return std::unexpected(named.error());
  const auto ticket =
      state.batches().customers().set(*named->tenant, named->name, by.tenant().account, changes);
  if (ticket) state.tell_lanes(*named->tenant, named->name);
  return ticket;
}

std::expected<CustomerChanges::Removed, std::string> delete_customer(ServerState& state, const User& by,
                                                                     std::string_view customer) {
  const auto named = customer_named(state.batches().registry().tenants(), by, customer);
  if (!named) return std::unexpected(named.error());
  const auto removed = state.batches().customers().remove(*named->tenant, named->name, by.tenant().account);
  if (removed && removed->had_settings) state.tell_lanes(*named->tenant, named->name);
  return removed;
}

std::expected<std::uint32_t, std::string> restart_handler(const ServerState& state, const User& by,
                                                          const std::string& name) {
  const auto entry = usable_handler(state.handlers(), by, name);
  if (!entry) return std::unexpected(entry.error());
  if ((*entry)->restart) return (*entry)->restart();
  if ((*entry)->is_held) {
    return std::unexpected(
        fmt::format("ERR the handler '{}' is being replaced by its new configuration: try again", name));
  }
  return std::unexpected(
      fmt::format("ERR the handler '{}' runs in the daemon: it has no processes to restart", name));
}

}  // namespace locksley::daemon
