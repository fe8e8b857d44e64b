// A parallel loop over an index range, on the stealing ranges of its participants.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/base/job.h"
#include "core/steal/steal_range.h"
#include "core/tasks/context.h"
#include "core/tasks/task_group.h"

namespace locksley {

// One run of Context::parallel_for(). Every participant has a stealing range of its own. It takes
// bursts from the range's low end; once the range is used up, it steals the upper half of another
// participant's. The algorithm is that of Dzmitry Huba, "Load-balancing partitioner with work
// stealing, part one" (blogs.msdn.com/dhuba). But here the owner takes bursts, too: an exchange for
// each index costs more than a tiny body. Participants are tasks: the caller, and one for each
// other worker, which joins by stealing the task. A participant leaves when there is nothing to
// steal, that is, when each of the others has come to its last burst.
//
// On the stack of the code that called parallel_for(), until run() returns. run() belongs to that
// code's thread; the other functions run on any worker. run() blocks until all indexes have been
// run, or dropped. The first exception of a body leaves run().
template <class Body>
class ParallelLoop {
 public:
  ParallelLoop(Context& context, Body& body, std::uint64_t grain)
      : context_(context), body_(body), grain_(grain) {}

  void run(IndexRange range) {
    if (range.high <= range.low) return;
    // The caller takes part in any case: a pool that is being stopped counts no workers any more,
    // but this job still runs.
    participants_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        context_.spawner().pool_workers(), 1, std::min<std::uint64_t>(kMostParticipants, range.size())));
    ranges_ = std::make_unique<StealRange<>[]>(participants_);
    TaskGroup group(context_);
    // A range longer than one publication is run as several, one after the other.
    while (!range.empty() && !dropped_.load()) {
      const IndexRange part{range.low, range.low + std::min(range.size(), StealRange<>::kMaxLen)};
      range.low = part.high;
      joined_.store(1);
      {
        auto own = ranges_[0].owner();
        own.publish(part);
        for (std::uint32_t i = 1; i < participants_; ++i) {
          group.spawn([this](Context& context) { help(context); });
        }
        take_part(context_, own, 0);
      }
      group.wait();
    }
  }

 private:
  // A guess: each participant costs a range and a task, whether a worker joins or not.
  static constexpr std::uint32_t kMostParticipants = 256;
  // How long a burst should take: long compared with the swap that takes it and with reading the
  // clock, short compared with a delay that a user notices.
  static constexpr Nanoseconds kBurstTime = std::chrono::microseconds(20);

  void help(Context& context) {
    const std::uint32_t number = joined_.fetch_add(1);
    if (number >= participants_) return;
    auto own = ranges_[number].owner();
    take_part(context, own, number);
  }

  void take_part(Context& context, StealRange<>::Owner& own, std::uint32_t number) {
    struct DropOnThrow {
      ParallelLoop& loop;
      bool armed = true;
      ~DropOnThrow() {
        if (armed) loop.drop();
      }
    } guard{*this};
    std::uint64_t burst_size = grain_ != 0 ? grain_ : 1;
    Nanoseconds before = grain_ != 0 ? Nanoseconds{} : steady_now();
    for (;;) {
      for (;;) {
        const IndexRange burst = own.take_burst(burst_size);
        if (burst.empty()) break;
        if (dropped_.load() || context.should_stop()) {
          drop();
          // The range counts as used up only once its last burst is taken.
          (void)own.take_all();
          break;
        }
        // Indexes are asked for first: a generic lambda may not compile with a range.
        if constexpr (std::is_invocable_v<Body&, std::uint64_t>) {
          for (std::uint64_t i = burst.low; i < burst.high; ++i) body_(i);
        } else if constexpr (std::is_invocable_v<Body&, Context&, IndexRange>) {
          body_(context, burst);
        } else {
          body_(burst);
        }
        if (grain_ == 0) {
          const Nanoseconds now = steady_now();
          if (now - before < kBurstTime / 2 && burst.size() == burst_size) {
            burst_size *= 2;
          } else if (now - before > kBurstTime * 2 && burst_size > 1) {
            burst_size /= 2;
          }
          before = now;
        }
      }
      if (!steal_some(own, number)) break;
      if (grain_ == 0) before = steady_now();
    }
    guard.armed = false;
  }

  bool steal_some(StealRange<>::Owner& own, std::uint32_t number) {
    for (bool lost = true; lost && !dropped_.load();) {
      lost = false;
      for (std::uint32_t i = 1; i < participants_; ++i) {
        const auto stolen = ranges_[(number + i) % participants_].thief().steal();
        if (stolen.stolen()) {
          own.publish(stolen.value.range);
          return true;
        }
        if (stolen.outcome == StealOutcome::kLostRace) lost = true;
      }
    }
    return false;
  }

  void drop() {
    dropped_.store(true);
    for (std::uint32_t i = 0; i < participants_; ++i) {
      while (ranges_[i].thief().steal().outcome != StealOutcome::kEmpty) {
      }
    }
  }

  Context& context_;
  Body& body_;
  const std::uint64_t grain_;
  std::uint32_t participants_ = 1;
  std::unique_ptr<StealRange<>[]> ranges_;
  // How many participants have joined; each takes the next range. Written and read by all.
  std::atomic<std::uint32_t> joined_{1};
  // No more indexes are run, because a body threw or the job should stop. Written by any
  // participant, read by all between bursts.
  std::atomic<bool> dropped_{false};
};

template <class Body>
void Context::parallel_for(std::uint64_t low, std::uint64_t high, Body&& body, std::uint64_t grain) {
  ParallelLoop<std::remove_reference_t<Body>>(*this, body, grain).run({low, high});
}

}  // namespace locksley
