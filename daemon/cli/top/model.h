// The figures that `locksley top` shows: the daemon's replies, and the rates that follow from two
// of them.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/context/progress.h"
#include "daemon/cli/top/snapshot.h"

namespace locksley::cli {

// A thread of the daemon's pool.
struct TopWorker {
  std::uint64_t worker = 0, queue_depth = 0;
  double busy = 0;  // fraction of the time between the last two snapshots, 0 to 1
  double steals_per_second = 0;
};

// A batch of the list.
struct TopBatch {
  client::BatchStatus status;
  TopBatchName name;
  std::optional<client::Explanation> explanation;
  double progress = 0;                            // 0 to 1
  double jobs_per_second = 0;                     // jobs that end
  std::optional<std::chrono::milliseconds> left;  // until it is over, as far as is known

  bool is_paused() const { return explanation && explanation->is_paused; }
  // The batch's name, or its id if it has no name.
  const std::string& title() const { return status.name.empty() ? status.id : status.name; }
};

// All figures on the screen: those in the daemon's last replies, and the rates that follow from the
// last two.
struct TopFigures {
  TopServer server;
  bool has_rates = false;  // there were two snapshots of the same daemon
  double busy = 0;         // of all workers
  double steals_per_second = 0;
  std::optional<double> jobs_per_second;  // of all handlers; absent: the daemon does not say
  std::vector<TopWorker> workers;
  std::vector<client::MachineInfo> machines;  // those that lost most first, then the largest
  std::vector<TopLane> lanes;                 // those with most to do first
  std::vector<client::TenantInfo> tenants;    // likewise
  std::vector<TopBatch> batches;              // unfinished ones first; of both kinds the newest first
  bool has_all_active = true;
  std::optional<TopDetail> detail;
  std::string refusal;
};

// Makes figures from snapshots of the daemon: rates from the last two snapshots, those of batches
// from some seconds. Uses no clock but the times of the snapshots. Used by one thread; nothing
// blocks or fails.
class TopModel {
 public:
  void take(TopSnapshot snapshot);
  // The connection was lost: the next snapshot is not compared with the one before.
  void forget_rates();
  const TopFigures& figures() const { return figures_; }

 private:
  void take_workers(const TopSnapshot& snapshot, double seconds);
  void take_batches(TopSnapshot& snapshot);
  TopBatch to_batch(client::BatchStatus status, const TopSnapshot& snapshot);

  TopFigures figures_;
  std::optional<TopSnapshot> last_;  // its batches have been moved out
  std::map<std::string, RateMeter> meters_;
};

// What batches are sorted by; equals stay as they are, and batches that are over come last.
enum class TopOrder { kNewest, kProgress, kRate, kLeft, kJobs, kFailed, kName, kTenant };
inline constexpr std::string_view kTopOrderNames[] = {"newest", "progress", "rate", "left",
                                                      "jobs",   "failed",   "name", "tenant"};
inline constexpr std::size_t kTopOrders = std::size(kTopOrderNames);
std::string_view to_string(TopOrder order);

// The batches in whose name, id, handler, tenant, state or reason `filter` is found, in any case of
// letters; in order. The pointers point into `figures`.
std::vector<const TopBatch*> chosen_batches(const TopFigures& figures, TopOrder order,
                                            std::string_view filter);

// In a word or two: why the batch waits, or how it ended.
std::string state_of(const TopBatch& batch);

}  // namespace locksley::cli
