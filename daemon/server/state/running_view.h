// The jobs that run at this moment, as RUNNING and the JSON API show them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/lane/shown_jobs.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

class ServerState;

// Collects the jobs that run in steps of some 100 us each, so that clients are served in between.
//
// On the stack of its caller. The I/O thread only; the state outlives it. Nothing blocks or fails.
class RunningList {
 public:
  static constexpr std::size_t kNoteBytes = 1024;
  static constexpr std::size_t kMostBytes = 256 * 1024;  // of notes and names together, about
  static constexpr std::size_t kEach = 64;               // about how many bytes a row takes without its texts

  struct Row {
    std::shared_ptr<BatchRecord> record;
    std::uint64_t index = 0;
    std::uint32_t attempt = 1;
    Nanoseconds since{};
    std::string worker;
    std::optional<std::uint32_t> progress;
    std::string note;
  };

  // At most `count` jobs, the longest running ones: of one batch, or, if `batch` is null, of the
  // user's batches (for an admin: of all users').
  RunningList(ServerState& state, const User& by, const BatchRecord* batch, std::size_t count);

  // Does the next step. False: there was none left.
  bool step() LOCKSLEY_REQUIRES(kIoThread);
  // About how many bytes it holds so far. O(rows).
  std::size_t memory_bytes() const;
  // After the last step: longest first.
  std::vector<Row> take();

 private:
  bool is_wanted(const Batch& batch) const;
  void add(ShownJobs::View view);
  // Keeps only the jobs that have run for longest, in any order.
  void drop_shorter();

  ServerState& state_;
  const BatchRecord* const batch_;
  const std::string tenant_;  // empty: all
  const std::size_t count_;
  std::size_t lane_ = 0;
  std::size_t next_ = 0;
  bool has_pool_ = false;
  std::vector<Row> rows_;
};

}  // namespace locksley::daemon
