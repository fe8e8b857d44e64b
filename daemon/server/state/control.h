// Changes of a batch, a customer or a handler on request, by a command or by the HTTP API.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/batches/changes/customer_changes.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/store/write/ticket.h"
#include "proto/customer_settings.h"

namespace locksley::daemon {

class Batches;
class ServerState;
class User;
struct ReadFailures;

enum class Control : std::uint8_t { kPause, kResume, kCancel, kRetry, kWeight, kSlots };

// The arguments of a change.
struct ControlArguments {
  std::uint32_t weight = 0;                 // for kWeight
  std::uint32_t slots = 0;                  // for kSlots; 0: no bound
  std::optional<std::uint64_t> round = {};  // for kRetry: as in Intake::retry()
  std::vector<std::uint64_t> indexes = {};  // likewise
  const ReadFailures* failures = nullptr;   // likewise
};

// Makes the change, to a batch that `by` may see and change. Returns a number of jobs: those that
// kCancel kept from running, or that kRetry queued again; else 0. The error is the text of the
// error reply. A reply has to wait for BatchChanges::ticket().
std::expected<std::uint64_t, std::string> control(Batches& batches, const User& by, BatchRecord& record,
                                                  Control what, const ControlArguments& arguments = {})
    LOCKSLEY_REQUIRES(kIoThread);

// CUSTOMER SET and DEL. `customer`: as the client says it (customer_named()). They return the
// ticket for which a reply waits, 0: none; DEL also whether it had settings. The error is the text
// of the error reply.
std::expected<Ticket, std::string> set_customer(ServerState& state, const User& by, std::string_view customer,
                                                const proto::CustomerSettings& changes)
    LOCKSLEY_REQUIRES(kIoThread);
std::expected<CustomerChanges::Removed, std::string> delete_customer(ServerState& state, const User& by,
                                                                     std::string_view customer)
    LOCKSLEY_REQUIRES(kIoThread);

// Replaces the processes of a handler that `by` may use, one by one: each ends after the jobs that
// it has got, and later jobs start a new one. Returns the number of processes. The error is the
// text of the error reply.
std::expected<std::uint32_t, std::string> restart_handler(const ServerState& state, const User& by,
                                                          const std::string& name)
    LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
