// A parallel loop over an index range, on the stealing ranges of those who take part.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/context.h"
#include "core/job.h"
#include "core/steal_range.h"
#include "core/worker.h"

namespace locksley {

// One run of Context::parallel_for(). Every participant has a stealing range of its own: it takes pieces from
// its low end, and when it has none left it steals the upper half of another's (after the load-balancing
// partitioner with work stealing; the owner takes pieces there too, since an exchange an index costs more
// than a tiny body). Participants are tasks: the caller, and one for each other worker, which a worker joins
// by stealing the task. A participant leaves when there is nothing to steal, that is, when every other has
// come to its last piece.
template <class Body>
class ParallelLoop {
 public:
  ParallelLoop(Context& context, Body& body, std::uint64_t grain)
      : context_(context), body_(body), grain_(grain) {}

  void run(IndexRange range) {
    if (range.high <= range.low) return;
    // At least this one: a pool that is being stopped has no workers any more, but this job still runs.
    participants_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        context_.worker().pool_workers(), 1, std::min<std::uint64_t>(kMostParticipants, range.size())));
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
  static constexpr std::uint32_t kMostParticipants = 256;
  // How long a piece should take: long beside the swap that takes it and the clock that measures it, short
  // beside what a user notices.
  static constexpr Nanoseconds kPieceTime = std::chrono::microseconds(20);

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
    std::uint64_t piece_size = grain_ != 0 ? grain_ : 1;
    Nanoseconds before = grain_ != 0 ? Nanoseconds{} : steady_now();
    for (;;) {
      for (;;) {
        const IndexRange piece = own.take_piece(piece_size);
        if (piece.empty()) break;
        if (dropped_.load() || context.should_stop()) {
          drop();
          // A piece must be taken for the range to be used up.
          (void)own.take_all();
          break;
        }
        // Indexes are asked for first: a generic lambda may not compile with a range.
        if constexpr (std::is_invocable_v<Body&, std::uint64_t>) {
          for (std::uint64_t i = piece.low; i < piece.high; ++i) body_(i);
        } else if constexpr (std::is_invocable_v<Body&, Context&, IndexRange>) {
          body_(context, piece);
        } else {
          body_(piece);
        }
        if (grain_ == 0) {
          const Nanoseconds now = steady_now();
          if (now - before < kPieceTime / 2 && piece.size() == piece_size) {
            piece_size *= 2;
          } else if (now - before > kPieceTime * 2 && piece_size > 1) {
            piece_size /= 2;
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
  // How many participants have come; each takes the next range. Written by all.
  std::atomic<std::uint32_t> joined_{1};
  // The rest is not to be run: a body threw, or the job should stop. Written by any, read by all between
  // pieces.
  std::atomic<bool> dropped_{false};
};

}  // namespace locksley
