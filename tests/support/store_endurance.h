// A store that lives through ends of all kinds.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"
#include "tests/support/store_workload.h"
#include "tests/support/threads.h"

namespace locksley::testing {

// Calls `body` for each number below `count`, several at once, because most of the time is waiting.
// Ends early once the test has failed.
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

// Whether a caller waits for its outcome.
inline bool is_awaited(const daemon::StoreWrite& write) {
  return !std::holds_alternative<daemon::RecordStep>(write);
}

// The state in which batches also know of the ends of others that later writes tell them, if it
// equals what was found: jobs that are added to such a batch may not be there yet.
inline std::optional<StoreModel> told_ahead(StoreModel state, const Picture& found,
                                            std::span<const Put> later) {
  const Picture picture = state.picture();
  if (picture.size() != found.size()) return std::nullopt;
  for (const auto& [sequence, text] : found) {
    const auto expected = picture.find(sequence);
    if (expected == picture.end()) return std::nullopt;
    if (expected->second == text) continue;
    StoreModel::Batch& batch = state.batches.at(sequence);
    const std::optional<daemon::ChangesRow> before = batch.changes;
    const auto is_told = [&](const Put& put) {
      const auto* const change = std::get_if<daemon::ChangeBatch>(&put.write);
      if (change == nullptr || change->sequence != sequence || !daemon::tells_of_ends(change->changes))
        return false;
      batch.changes = change->changes;
      batch.changes->jobs = before ? before->jobs : 0;
      batch.changes->payload_bytes = before ? before->payload_bytes : 0;
      batch.changes->is_closed = false;
      return state.picture().at(sequence) == text;
    };
    if (!batch.accepted.is_streamed || std::ranges::none_of(later, is_told)) return std::nullopt;
  }
  return state;
}

// The state after one of the writes from the `least`-th on, if it is what was found.
inline std::optional<StoreModel> beginning_that_is(const Picture& found, StoreModel state,
                                                   const std::vector<Put>& puts, std::size_t least) {
  for (std::size_t i = 0;; ++i) {
    if (i >= least) {
      if (auto told = told_ahead(state, found, std::span(puts).subspan(i))) return told;
    }
    if (i == puts.size()) return std::nullopt;
    state.apply(puts[i].write);
  }
}

// A disk, a store on it, and a workload that goes on from start to start. After each end the store
// must hold a beginning of all that was written, with all that was acknowledged if it is synced
// before.
class Endurance {
 public:
  explicit Endurance(std::uint64_t seed, config::Durability durability = config::Durability::kFsync)
      : bench_(seed, durability), durability_(durability), random_(seed) {
    // In half of the runs all payloads that are more than one chunk go ahead of their writes, in
    // parts.
    if (seed % 2 == 0) bench_.in_group = 160U << 10;
  }

  StoreBench& bench() { return bench_; }
  // Called when a batch is about to be forgotten while many jobs are being added to one that waited
  // for it.
  std::function<void()> at_forget = [] {};

  // Opens the store, checks it, and makes this many writes, or stops when the disk fails. False:
  // the store could not be opened.
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
      const bool goes_on = workload.goes_on();
      const daemon::StoreWrite write = workload.next();
      if (goes_on && std::holds_alternative<daemon::ForgetBatch>(write)) at_forget();
      put(write);
      if (!is_awaited(write) || workload.goes_on() || random_() % 3 == 0) continue;
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
  // Opens a last time, and ends cleanly: each row must belong to a batch.
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
    expect_outcomes_of_deleted();
    puts_.clear();
    acknowledged_ = 0;
  }

  // A batch that others wait for is deleted once the store has its outcome for them.
  void expect_outcomes_of_deleted() const {
    for (const auto& [sequence, batch] : state_.batches) {
      const daemon::ChangesRow changes = batch.changes.value_or(daemon::ChangesRow());
      if (batch.is_over() || changes.is_released) continue;
      for (std::size_t i = 0; i < batch.accepted.after.size(); ++i) {
        const std::uint64_t other = batch.accepted.after[i].sequence;
        EXPECT_TRUE(changes.is_satisfied(i) || state_.batches.contains(other))
            << "batch " << sequence << " waits for batch " << other << ", which was deleted";
      }
    }
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
