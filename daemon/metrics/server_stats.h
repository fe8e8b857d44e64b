// The counters of the client port, and the labels by which they are shown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/pool/worker_stats.h"
#include "daemon/base/loop/stretch_meter.h"
#include "proto/command_table.h"

namespace locksley::daemon {

// The codes with which error replies begin, which are the values of a label of
// locksley_command_errors_total. Any other code counts as `other`.
enum class ErrorCode : std::uint8_t {
  kErr,
  kNoAuth,
  kWrongPass,
  kNoPerm,
  kNoProto,
  kNoHandler,
  kNoBatch,
  kExists,
  kClosed,
  kTooBig,
  kQueueFull,
  kDraining,
  kStore,
  kDenied,
  kExecAbort,
  kOffset,
  kOther,
};
inline constexpr std::size_t kErrorCodes = 17;
inline constexpr std::array<std::string_view, kErrorCodes> kErrorCodeNames = {
    "ERR",    "NOAUTH",    "WRONGPASS", "NOPERM", "NOPROTO", "NOHANDLER", "NOBATCH", "EXISTS", "CLOSED",
    "TOOBIG", "QUEUEFULL", "DRAINING",  "STORE",  "DENIED",  "EXECABORT", "OFFSET",  "other"};

// The code with which the text of an error reply begins.
ErrorCode error_code_of(std::string_view error_text);

// Whose limit an error QUEUEFULL names: the label `limit` of locksley_queue_full_errors_total.
enum class FullLimit : std::uint8_t { kAll, kUser, kCustomer };
inline constexpr std::size_t kFullLimits = 3;
inline constexpr std::array<std::string_view, kFullLimits> kFullLimitNames = {"all", "user", "customer"};

// The limit that the text of such an error names.
FullLimit full_limit_of(std::string_view error_text);

// The events of batches: the label `event` of locksley_batches_total.
enum class BatchEvent : std::uint8_t { kAccepted, kDone, kCancelled, kRejected };
inline constexpr std::size_t kBatchEvents = 4;
inline constexpr std::array<std::string_view, kBatchEvents> kBatchEventNames = {"accepted", "done",
                                                                                "cancelled", "rejected"};

// The counters of the client port. Owned by the Server. Only the I/O thread writes, so an increment
// is a load and a store; any thread may read at any time. Nothing blocks or fails. Gauges are
// OwnedCounters that are set.
struct ServerStats {
  using BatchCounters = std::array<OwnedCounter, kBatchEvents>;  // by BatchEvent

  explicit ServerStats(std::span<const std::string> handler_names) {
    for (const std::string& name : handler_names) batches.try_emplace(name);
  }

  OwnedCounter connections;              // gauge: open now
  OwnedCounter connections_accepted;     // in all
  OwnedCounter connections_refused;      // too many clients, or not from this machine
  OwnedCounter authentication_failures;  // on the wire and by HTTP
  OwnedCounter tls_handshakes;           // successful
  OwnedCounter tls_failures;             // connections that ended before the handshake was complete
  OwnedCounter subscribers;              // gauge: connections with a subscription
  OwnedCounter blocked;                  // gauge: connections in a blocking command

  std::array<OwnedCounter, static_cast<std::size_t>(proto::CommandId::kCount)> commands;  // by CommandId
  OwnedCounter unknown_commands;
  std::array<OwnedCounter, kErrorCodes> command_errors;     // by ErrorCode
  std::array<OwnedCounter, kFullLimits> queue_full_errors;  // by FullLimit; together those of kQueueFull
  OwnedCounter protocol_errors;

  OwnedCounter received_bytes;
  OwnedCounter sent_bytes;

  OwnedCounter queued_jobs;       // gauge: accepted and not ended
  OwnedCounter queued_bytes;      // gauge: payloads in memory, of batches that have not ended
  OwnedCounter stored_bytes;      // gauge: of batches in the store
  OwnedCounter active_batches;    // gauge: have not ended
  OwnedCounter retained_batches;  // gauge: ended and not yet evicted

  IoStretches stretches;

  OwnedCounter events_published;
  OwnedCounter slow_clients_dropped;  // their output exceeded limits.output_buffer

  // By handler. The keys are the names given to the constructor and to add_handler().
  std::map<std::string, BatchCounters, std::less<>> batches;

  // Call it on the thread that reads the counters, which is the I/O thread.
  void add_handler(const std::string& name) { batches.try_emplace(name); }

  // Counts `count` error replies with this text.
  void count_errors(std::string_view error_text, std::uint64_t count) {
    const ErrorCode code = error_code_of(error_text);
    command_errors[static_cast<std::size_t>(code)].add(count);
    if (code != ErrorCode::kQueueFull) return;
    queue_full_errors[static_cast<std::size_t>(full_limit_of(error_text))].add(count);
  }

  void count_batch(std::string_view handler, BatchEvent event) {
    if (const auto found = batches.find(handler); found != batches.end()) {
      found->second[static_cast<std::size_t>(event)].add(1);
    }
  }
};

}  // namespace locksley::daemon
