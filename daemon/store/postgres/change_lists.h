// Tells daemons that stand by which batches each group has changed. Internal to
// daemon/store/postgres.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/postgres_group.h"
#include "daemon/store/postgres/table_upkeep.h"

namespace locksley::daemon {

// A row of locksley_change: the batches whose rows of the index a group has changed.
struct ChangeList {
  // In place of a batch: rows of batches that are not known one by one.
  static constexpr std::int64_t kOthers = -1;

  std::int16_t half = 0;
  std::vector<std::int64_t> batches;  // ascending
};

// While another daemon stands by, each group is written with a list of the batches that it has
// changed. So that daemon reads these again, and not the whole index, when it takes over
// (IndexFollowing).
//
// The lists lie in one half of locksley_change until they have kFull bytes, and then in the other
// one, which is truncated before that. If it cannot be truncated, because a session uses it, the
// lists go on where they are, up to kMost bytes; then no further list is written. A daemon that
// stands by and misses a list reads the whole index again.
//
// list() is for the writer, and all else for the thread of the beats. Nothing blocks, but for
// run().
class ChangeLists {
 public:
  // Of the daemon `node`. `reply`: a statement that takes longer has failed. `bytes`: that the
  // first half has already; none: this daemon's role may not write lists.
  ChangeLists(std::int32_t node, std::chrono::milliseconds reply, std::optional<std::uint64_t> bytes)
      : node_(node), reply_(reply), may_write_(bytes.has_value()), bytes_(bytes.value_or(0)) {}

  void set_wanted(bool is_wanted) { is_wanted_ = is_wanted; }

  // The list of a group; none: no list is written.
  std::optional<ChangeList> list(const PostgresGroup& group);

  // Changes the halves if it is time. As Compaction::run().
  PgExpected<Freed> run(PgConnection& connection);

 private:
  static constexpr std::uint64_t kFull = std::uint64_t{8} << 20;
  static constexpr std::uint64_t kMost = 8 * kFull;

  const std::int32_t node_;
  const std::chrono::milliseconds reply_;
  const bool may_write_;
  // Another daemon stands by. At the start that is not known yet, and may be so.
  std::atomic<bool> is_wanted_ = true;
  // Where the next list goes, and about how many bytes are there. A list that goes into the half of
  // a moment ago is found there.
  std::atomic<std::int16_t> half_ = 0;
  std::atomic<std::uint64_t> bytes_;
};

}  // namespace locksley::daemon
