// A store that lives through ends of all kinds.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"
#include "tests/support/store_workload.h"
#include "tests/support/threads.h"

namespace locksley::testing {

// Does something for each of the numbers below `count`, some at once: most of it is waiting. Ends early once
// the test has failed.
template <class Body>
void for_each_number(std::size_t threads, std::uint64_t count, Body body) {
  std::atomic<std::uint64_t> next{0};
  run_together(threads, [&](std::size_t) {
    for (std::uint64_t i = next++; i < count && !::testing::Test::HasFailure(); i = next++) body(i);
  });
}

// A write, and the group that it went with.
struct Put {
  daemon::StoreWrite write;
  daemon::Ticket ticket;
};

// Whether somebody waits for its outcome.
inline bool is_awaited(const daemon::StoreWrite& write) {
  return !std::holds_alternative<daemon::RecordStep>(write);
}

// The state after one of the writes from the `least`-th on, if it is what was found.
inline std::optional<StoreModel> beginning_that_is(const Picture& found, StoreModel state,
                                                   const std::vector<Put>& puts, std::size_t least) {
  for (std::size_t i = 0;; ++i) {
    if (i >= least && state.picture() == found) return state;
    if (i == puts.size()) return std::nullopt;
    state.apply(puts[i].write);
  }
}

// A disk, a store on it, and a workload that goes on from start to start. After each end the store must hold
// a beginning of all that was written, with all that was acknowledged if it is synced before.
class Endurance {
 public:
  explicit Endurance(std::uint64_t seed, config::Durability durability = config::Durability::kFsync)
      : bench_(seed, durability), durability_(durability), random_(seed) {
    // In half of the runs all payloads that are more than one chunk go ahead of their writes, in parts.
    if (seed % 2 == 0) bench_.in_group = 160U << 10;
  }

  StoreBench& bench() { return bench_; }

  // Opens, looks, and goes on for so many writes, or until the disk fails. False: it could not be opened.
  bool run(std::uint64_t writes) {
    error_.clear();
    auto found = bench_.try_recover();
    if (!found) {
      error_ = found.error();
      return false;
    }
    look(*found);
    bench_.start();
    StoreWorkload workload(random_(), state_, bench_.store->next_sequence());
    for (daemon::StoreWrite& write : workload.begin()) put(std::move(write));
    std::size_t settled = 0;
    while (puts_.size() < writes) {
      const daemon::StoreWrite write = workload.next();
      put(write);
      if (!is_awaited(write) || random_() % 3 == 0) continue;
      if (!bench_.outcomes->await(std::ranges::max_element(puts_, {}, &Put::ticket)->ticket).error.empty())
        break;
      for (; settled < puts_.size(); ++settled) workload.taken(puts_[settled].write);
    }
    return true;
  }
  // The end of the process.
  void end() {
    bench_.close();
    daemon::Ticket acknowledged = 0;
    if (bench_.outcomes) {
      for (const daemon::Outcome& outcome : bench_.outcomes->all()) {
        if (!outcome.error.empty()) break;
        acknowledged = outcome.up_to;
      }
    }
    // Large writes go with later groups than those that were put after them.
    std::ranges::stable_sort(puts_, {}, &Put::ticket);
    acknowledged_ = 0;
    if (durability_ != config::Durability::kFsync) return bench_.outcomes.reset();
    while (acknowledged_ < puts_.size() && puts_[acknowledged_].ticket <= acknowledged) ++acknowledged_;
    bench_.outcomes.reset();
  }
  // Why it could not be opened.
  const std::string& error() const { return error_; }
  // Opens a last time, and ends cleanly: each row must be of something.
  void finish() {
    auto found = bench_.try_recover();
    ASSERT_TRUE(found.has_value()) << found.error();
    look(*found);
    bench_.start();
    StoreWorkload workload(random_(), state_, bench_.store->next_sequence());
    for (daemon::StoreWrite& write : workload.begin())
      bench_.store->put(daemon::StoreWrite(write), urgency_of(write));
    bench_.close();
    EXPECT_THAT(rows_of_nothing(bench_.raw(), state_), ::testing::IsEmpty());
  }

 private:
  void put(daemon::StoreWrite write) {
    const daemon::Ticket ticket = bench_.store->put(daemon::StoreWrite(write), urgency_of(write));
    puts_.push_back({std::move(write), ticket});
  }
  void look(const Picture& found) {
    auto state = beginning_that_is(found, state_, puts_, acknowledged_);
    if (!state) {
      StoreModel least = state_;
      for (std::size_t i = 0; i < acknowledged_; ++i) least.apply(puts_[i].write);
      ADD_FAILURE() << "what is there is no beginning of what was written (" << puts_.size() << " writes, "
                    << acknowledged_ << " acknowledged). Against what was acknowledged: "
                    << is_same(found, least.picture()).message();
      return;
    }
    state_ = std::move(*state);
    puts_.clear();
    acknowledged_ = 0;
  }

  StoreBench bench_;
  const config::Durability durability_;
  std::mt19937_64 random_;
  StoreModel state_;       // when the puts began
  std::vector<Put> puts_;  // since the last start
  std::size_t acknowledged_ = 0;
  std::string error_;
};

}  // namespace locksley::testing
