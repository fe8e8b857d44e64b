// The line that shows how far a batch is, on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/base/job.h"
#include "daemon/cli/context/options.h"

namespace locksley::cli {

// The progress of a batch.
struct ProgressCounts {
  std::uint64_t done = 0;    // jobs that ended, ok or not
  std::uint64_t failed = 0;  // of them, not ok
  std::uint64_t total = 0;   // jobs known so far
  bool is_open = false;      // more may be added
};

// Jobs per second at the moment: an exponential average over the last seconds.
class RateMeter {
 public:
  using Time = Instant;

  // `done`: the number of jobs at the start.
  explicit RateMeter(Time start, std::uint64_t done = 0) : last_(start), last_done_(done) {}
  void update(std::uint64_t done, Time now);
  double per_second() const { return rate_; }

 private:
  // The weight of an old rate falls to 1/e in this time. Guess: long enough to be readable, short
  // enough to show a change.
  static constexpr double kMemorySeconds = 3.0;

  Time last_;
  std::uint64_t last_done_;
  double rate_ = 0;
  bool has_rate_ = false;
};

// "[#######-------] 500/1,000 50.0%  2 failed  250 jobs/s  2.0s left": at most `width` characters,
// the width of the terminal.
std::string progress_line(const ProgressCounts& counts, double jobs_per_second, std::size_t width);

// Shows a progress line on standard error. On a terminal it is redrawn in place, at most 10 times a
// second; without a terminal, if requested, it is a new line at most once a second. Used by one
// thread. Blocks only for writes to standard error.
class Progress {
 public:
  Progress(WhenProgress when, std::string label);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool is_shown() const { return shown_; }
  void update(const ProgressCounts& counts);
  // Draws the last state at once, and leaves it on the screen.
  void finish(const ProgressCounts& counts);
  // Removes the line, so that other text can be written; the next update() draws it again.
  void clear();

 private:
  void draw(const ProgressCounts& counts);

  const std::string label_;
  bool terminal_ = false;
  bool shown_ = false;
  bool drawn_ = false;
  bool was_cleared_ = false;  // the line was removed, so the next update draws it
  std::size_t width_ = 80;
  Instant last_drawn_{};
  RateMeter rate_;
};

}  // namespace locksley::cli
