#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/worker_stats.h"
#include "proto/command_table.h"

namespace locksley::daemon {

// The codes that error replies start with: the bounded label of locksley_command_errors_total. A code that is
// not among them counts as `other`.
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
  kOther,
};
inline constexpr std::size_t kErrorCodes = 15;
inline constexpr std::array<std::string_view, kErrorCodes> kErrorCodeNames = {
    "ERR",    "NOAUTH", "WRONGPASS", "NOPERM",   "NOPROTO", "NOHANDLER", "NOBATCH", "EXISTS",
    "CLOSED", "TOOBIG", "QUEUEFULL", "DRAINING", "STORE",   "DENIED",    "other"};

// The code that an error reply's text starts with.
ErrorCode error_code_of(std::string_view error_text);

// What happened to batches: the label `event` of locksley_batches_total.
enum class BatchEvent : std::uint8_t { kAccepted, kDone, kCancelled, kRejected };
inline constexpr std::size_t kBatchEvents = 4;
inline constexpr std::array<std::string_view, kBatchEvents> kBatchEventNames = {"accepted", "done",
                                                                                "cancelled", "rejected"};

// What the server has done so far. Owned by the Server; written by the I/O thread alone (so an increment is a
// load and a store), read from any thread at any time without stopping it. Gauges are OwnedCounters that are
// set.
struct ServerStats {
  using BatchCounters = std::array<OwnedCounter, kBatchEvents>;  // by BatchEvent

  explicit ServerStats(std::span<const std::string> handler_names) {
    for (const std::string& name : handler_names) batches.try_emplace(name);
  }

  OwnedCounter connections;              // gauge: open now
  OwnedCounter connections_accepted;     // in all
  OwnedCounter connections_refused;      // too many clients, or not from this machine
  OwnedCounter authentication_failures;  // on the wire and by HTTP
  OwnedCounter tls_handshakes;           // that succeeded
  OwnedCounter tls_failures;             // connections that ended before they were secured
  OwnedCounter subscribers;              // gauge: connections that subscribe to something
  OwnedCounter blocked;                  // gauge: connections in a blocking command

  std::array<OwnedCounter, static_cast<std::size_t>(proto::CommandId::kCount)> commands;  // by CommandId
  OwnedCounter unknown_commands;
  std::array<OwnedCounter, kErrorCodes> command_errors;  // by ErrorCode
  OwnedCounter protocol_errors;

  OwnedCounter received_bytes;
  OwnedCounter sent_bytes;

  OwnedCounter queued_jobs;       // gauge: accepted and not ended
  OwnedCounter queued_bytes;      // gauge: payloads in memory of batches that are not over
  OwnedCounter stored_bytes;      // gauge: of batches in the store
  OwnedCounter active_batches;    // gauge: not over
  OwnedCounter retained_batches;  // gauge: over, and still there to be read

  OwnedCounter events_published;
  OwnedCounter slow_clients_dropped;  // their output passed limits.output_buffer

  // By handler. Its keys are those of construction and of add_handler().
  std::map<std::string, BatchCounters, std::less<>> batches;

  // On the thread that reads them, too.
  void add_handler(const std::string& name) { batches.try_emplace(name); }

  void count_batch(std::string_view handler, BatchEvent event) {
    if (const auto found = batches.find(handler); found != batches.end()) {
      found->second[static_cast<std::size_t>(event)].add(1);
    }
  }
};

}  // namespace locksley::daemon
