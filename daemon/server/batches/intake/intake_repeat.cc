// Decides whether a command with the id of an existing batch repeats the command that made the
// batch.
#include <fmt/format.h>

#include <expected>
#include <string>
#include <utility>

#include "daemon/server/accounts/customer_name.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/batches/intake/intake.h"
#include "daemon/server/records/lookup.h"

namespace locksley::daemon {

std::expected<Intake::Found, Intake::Refusal> Intake::find(const User& by, const std::string& handler,
                                                           const proto::BatchOptions& options) {
  const auto entry = usable_handler(parts_.handlers, by, handler);
  if (!entry) return repeated(by, handler, options, entry.error());
  auto customer = customer_named(parts_.registry.tenants(), by, options.customer);
  if (!customer) return refuse(handler, std::move(customer.error()));
  BatchRecord* known = nullptr;
  if (!options.id.empty()) {
    const auto found = find_own_batch(parts_.registry, *customer->tenant, options.id);
    if (!found) return refuse(handler, found.error());
    known = *found;
  }
  return Found{*entry, *std::move(customer), known};
}

std::expected<Intake::Found, Intake::Refusal> Intake::repeated(const User& by, const std::string& handler,
                                                               const proto::BatchOptions& options,
                                                               const Refusal& why) {
  if (options.id.empty() || !by.may_use(handler)) return std::unexpected(why);
  auto customer = customer_named(parts_.registry.tenants(), by, options.customer);
  if (!customer) return std::unexpected(why);
  const auto found = find_own_batch(parts_.registry, *customer->tenant, options.id);
  if (!found) return std::unexpected(found.error());
  if (*found == nullptr || (*found)->handler().name() != handler) return std::unexpected(why);
  return Found{nullptr, *std::move(customer), *found};
}

Intake::Accepted Intake::existing(BatchRecord& record, const std::string& handler, BatchRecord::Origin origin,
                                  bool has_same_jobs) {
  const std::string& its_handler = record.handler().name();
  std::string differs;
  if (its_handler != handler) {
    differs = fmt::format("its handler is '{}'", its_handler);
  } else if (origin == BatchRecord::Origin::kRun) {
    differs = "a RUN runs its jobs each time";
  } else if (origin != record.origin) {
    differs = origin == BatchRecord::Origin::kOpen ? "it was submitted, not opened"
                                                   : "it was opened, not submitted";
  } else if (!has_same_jobs) {
    differs = origin == BatchRecord::Origin::kOpen
                  ? "it has jobs, or was closed; to go on with it, send ADDAT and CLOSE"
                  : "it has other jobs";
  } else {
    return record.shared();
  }
  return refuse(handler,
                fmt::format("EXISTS a batch with the id '{}' exists already: {}", record.id(), differs));
}

}  // namespace locksley::daemon
