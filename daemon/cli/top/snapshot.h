// One snapshot of the daemon for `top`: plain values, as they came over the wire.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/values.h"

namespace locksley::cli {

// The fields of INFO. A field that the daemon did not send, because it is older or because the user
// is no admin, is absent, empty or 0.
struct TopServer {
  std::string version, user, groups, store;
  std::uint64_t process_id = 0, uptime_s = 0, clients = 0, max_clients = 0;
  std::uint64_t active_batches = 0, queued_jobs = 0, max_queued_jobs = 0, queued_bytes = 0,
                max_queued_bytes = 0;
  std::optional<std::uint64_t> retained_batches, ended_jobs, store_bytes, store_errors;
  bool is_draining = false;

  // Whether the user has this permission. True if the daemon does not say what the user may do: the
  // user may then try.
  bool may(std::string_view group) const;
};

struct TopLane {
  std::string name;
  std::uint64_t slots = 0, running = 0, queued = 0, batches = 0;
};

// Parses the reply to INFO; unknown fields are ignored.
TopServer to_top_server(std::string_view info);
std::vector<TopLane> to_top_lanes(std::string_view info);

// The key of a batch among those of all users, `tenant/id`.
std::string key_of(const client::BatchStatus& status);

// A batch as the view knows it, and as the daemon is asked about it.
struct TopBatchName {
  std::string key;   // key_of()
  std::string wire;  // an id; to admins `tenant/id`
  bool operator==(const TopBatchName&) const = default;
};

// What the current page needs in addition to the figures of every page.
struct TopDemand {
  std::vector<TopBatchName> explained;  // those on the screen, because EXPLAIN is not free
  std::optional<TopBatchName> detail;
};

// A job that did not end ok.
struct TopFailure {
  std::uint64_t index = 0;
  std::string status, text;
};

// The details of one batch.
struct TopDetail {
  std::string key;
  std::optional<client::BatchStatus> status;  // absent: it is not there, and `error` says so
  std::optional<client::Explanation> explanation;
  std::vector<TopFailure> failures;  // the first of them, kMostFailures at most
  std::uint64_t rows_looked_at = 0;  // of its results, in search of failures
  bool saw_all_rows = false;
  std::string error;

  static constexpr std::size_t kMostFailures = 100;  // guess: more than a person reads
};

// All values of one snapshot.
struct TopSnapshot {
  std::chrono::steady_clock::time_point at;
  std::string address;  // of the daemon
  TopServer server;
  std::vector<TopLane> lanes;
  std::vector<client::WorkerInfo> workers;
  std::vector<client::MachineInfo> machines;  // remote workers
  std::vector<client::TenantInfo> tenants;
  std::vector<client::BatchStatus> batches;                 // no two with one key
  bool has_all_active = true;                               // else the newest of those that are not over
  std::map<std::string, client::Explanation> explanations;  // by key, of those that were asked for
  std::optional<TopDetail> detail;
  std::string refusal;  // why something is missing; empty: nothing is
};

}  // namespace locksley::cli
