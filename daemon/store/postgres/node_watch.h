// The rows of the daemons in locksley_node, and how they change over time. Internal to
// daemon/store/postgres, without libpq.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/cluster_board.h"

namespace locksley::daemon {

// `committed` of a row whose daemon stands by, and never was active.
inline constexpr std::int64_t kNeverActive = -1;

// A daemon's row in locksley_node. `beat` grows while the daemon lives; README.md says how.
struct NodeRow {
  std::int32_t node = 0;
  std::string name;
  std::string wire;
  std::string workers = {};
  bool is_alive = false;  // it may write: the active daemon
  std::int64_t committed = 0;
  std::int64_t beat = 0;
  std::uint32_t shards = 0;  // that it owns

  // Of its writer; 0: it has not begun to write.
  std::int64_t epoch() const { return beat >> 40; }
  bool stands_by() const { return !is_alive && committed == kNeverActive; }
};

// One daemon's view of all daemons, from one check to the next: whose beats change. No clocks of
// different machines are compared.
//
// One thread at a time. Nothing blocks or fails.
class NodeWatch {
 public:
  // A daemon that stands by and has not beaten for so long is gone.
  explicit NodeWatch(std::chrono::milliseconds lease) : lease_(lease) {}

  // Takes the rows as they were at the instant `at`, and returns the view of the cluster that
  // follows.
  ClusterView see(const std::vector<NodeRow>& rows, Instant at);
  // After that check: rows of daemons that have been gone for so long, or are so many, that they
  // can be deleted.
  const std::vector<NodeRow>& outdated() const { return outdated_; }

 private:
  static constexpr auto kGoneKept = std::chrono::minutes(10);  // guess: an operator looks soon, or at the log
  static constexpr std::size_t kMostGone = 16;                 // guess

  struct Seen {
    std::int64_t beat;
    Instant beaten_at;
    std::optional<Instant> gone_at;  // when it was first seen to be gone, if it is
  };

  const std::chrono::milliseconds lease_;
  std::map<std::int32_t, Seen> seen_;
  std::vector<NodeRow> outdated_;
};

}  // namespace locksley::daemon
