// What a model test expects of a program, in all its schedules.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/model/explorer.h"

namespace locksley::model {

using Failure = Explorer::Failure;
// Builds its objects, lets the explorer run its threads, and returns whether the outcome is right.
using Program = std::function<bool(Explorer&)>;

// For GoogleTest's messages.
inline void PrintTo(Failure failure, std::ostream* out) {
  switch (failure) {
    case Failure::kNone:
      *out << "none";
      break;
    case Failure::kWrongOutcome:
      *out << "wrong outcome";
      break;
    case Failure::kDeadlock:
      *out << "deadlock";
      break;
    case Failure::kEndless:
      *out << "endless";
      break;
  }
}

// How the program fails within the limits, if it does. Schedules with few preemptions come first:
// most failures need few, are soon found then, and easier to follow.
inline Failure failure_of(const Program& program, const Explorer::Limits& limits) {
  Failure failure = Failure::kNone;
  for (int preemptions = 0; preemptions <= limits.preemptions && failure == Failure::kNone; ++preemptions) {
    Explorer::Limits few = limits;
    few.preemptions = preemptions;
    Explorer explorer(few);
    explorer.explore([&] { return program(explorer); });
    failure = explorer.failure();
  }
  return failure;
}

// The program is right in every schedule within the limits, of which there are some, under each
// kind of memory.
inline void expect_right(const Program& program, Explorer::Limits limits) {
  for (const Memory memory : {Memory::kX86, Memory::kWeak}) {
    limits.memory = memory;
    Explorer explorer(limits);
    explorer.explore([&] { return program(explorer); });
    const char* name = memory == Memory::kX86 ? "x86" : "weak";
    EXPECT_EQ(explorer.failure(), Failure::kNone)
        << "under " << name << ", in the schedule " << explorer.schedule();
    EXPECT_TRUE(explorer.complete() || explorer.failed())
        << "under " << name << ", only " << explorer.executions() << " schedules";
    EXPECT_GT(explorer.executions(), 20u) << "under " << name;
  }
}

}  // namespace locksley::model
