// Random writes such as a server makes, and what it makes of their outcomes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "daemon/store/write/group_commit.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::testing {

// A server in small, with batches of all kinds and nothing that runs. Owned by the test; one
// thread.
class StoreWorkload {
 public:
  // Continues with the state that an earlier process has left.
  StoreWorkload(std::uint64_t seed, StoreModel state, std::uint64_t next_sequence);

  // What a server writes when it begins.
  std::vector<daemon::StoreWrite> begin();
  // The next write. The state has it at once. Only jobs that were taken end.
  daemon::StoreWrite next();
  // The next write is put before the outcome of this one is known.
  bool goes_on() const { return scene_.has_value(); }
  // The store has taken it.
  void taken(const daemon::StoreWrite& write);
  // The store has refused the write. Returns what is then written; the state is without the refused
  // write.
  std::vector<daemon::StoreWrite> refused(const daemon::StoreWrite& write);

  const StoreModel& state() const { return state_; }

 private:
  struct Plan {
    std::unique_ptr<StepMaker> steps;
    std::vector<IndexRange> left;    // taken and not ended
    std::vector<IndexRange> failed;  // ended so, and not queued again; disjoint
    std::uint64_t unsettled = 0;     // writes that brought jobs
    daemon::ChangesRow changes;
    daemon::PayloadParts parts = daemon::PayloadParts::kUnknown;  // as the daemon knows it
    bool is_ours = true;                                          // accepted since the start
  };

  std::uint64_t below(std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_);
  }
  std::vector<std::string> random_payloads();
  daemon::StoreWrite accept();
  daemon::StoreWrite add(std::uint64_t sequence, const std::vector<std::string>& payloads);
  daemon::StoreWrite change(std::uint64_t sequence);
  daemon::StoreWrite step(std::uint64_t sequence);
  daemon::RecordStep steps_of(std::uint64_t sequence);
  // Some of the jobs that are left fail and are retried.
  daemon::StoreWrite try_again(std::uint64_t sequence);
  // All that has failed is queued again; the batch may be over.
  daemon::StoreWrite requeue(std::uint64_t sequence);
  daemon::ForgetBatch forget(std::uint64_t sequence);
  // A batch that waits, and the place of one that is over among those for which it waits; none: all
  // that wait know of all ends.
  struct Untold {
    std::uint64_t sequence;
    std::size_t place;
  };
  std::vector<Untold> untold() const;
  daemon::StoreWrite tell(const Untold& untold);
  bool is_waited_for(std::uint64_t sequence) const;
  // While many jobs are added to a batch, it is told of the end of another, which is then
  // forgotten.
  struct Scene {
    Untold told;
    std::uint64_t ended;
    bool is_told = false;
  };
  daemon::StoreWrite begin_scene(const Untold& untold);
  std::optional<daemon::StoreWrite> go_on_with_scene();
  // Any batch of which this is true; 0: there is none.
  template <class Condition>
  std::uint64_t any(Condition condition);
  bool may_end(std::uint64_t sequence);

  std::mt19937_64 random_;
  StoreModel state_;
  std::map<std::uint64_t, Plan> plans_;
  std::uint64_t next_sequence_;
  std::optional<Scene> scene_;
  std::int64_t clock_ = 1'700'000'000'000;
};

}  // namespace locksley::testing
