#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "daemon/cli/options.h"

namespace locksley::cli {

// How far a batch is.
struct ProgressCounts {
  std::uint64_t done = 0;    // jobs that ended, well or not
  std::uint64_t failed = 0;  // of them, not ok
  std::uint64_t total = 0;   // jobs known so far
  bool is_open = false;      // more may be added
};

// Jobs per second, as it is now: an average over the last seconds that forgets what is older.
class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `done`: how many there were at the start.
  explicit RateMeter(Time start, std::uint64_t done = 0) : last_(start), last_done_(done) {}
  void update(std::uint64_t done, Time now);
  double per_second() const { return rate_; }

 private:
  // A rate's weight falls to 1/e in this time: long enough to be readable, short enough to show a change.
  // Guess.
  static constexpr double kMemorySeconds = 3.0;

  Time last_;
  std::uint64_t last_done_;
  double rate_ = 0;
  bool has_rate_ = false;
};

// "[#####>    ] 1,234/10,000 12.3%  3 failed  4.5k jobs/s  0:12 left"; `width` is the terminal's, the line is
// never longer.
std::string progress_line(const ProgressCounts& counts, double jobs_per_second, std::size_t width);

// Shows a progress line on standard error: redrawn in place on a terminal, at most 10 times a second; as
// lines of its own, at most one a second, where it was asked for without a terminal. Used by one thread. It
// may block for as long as writing to standard error does.
class Progress {
 public:
  Progress(WhenProgress when, std::string label);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool is_shown() const { return shown_; }
  void update(const ProgressCounts& counts);
  // Draws the last state, whatever was drawn when, and leaves it there.
  void finish(const ProgressCounts& counts);
  // Takes the line away, so that other text can be written; the next update() draws it again.
  void clear();

 private:
  void draw(const ProgressCounts& counts);

  const std::string label_;
  bool terminal_ = false;
  bool shown_ = false;
  bool drawn_ = false;
  bool was_cleared_ = false;  // the line is missed, so the next update draws it
  std::size_t width_ = 80;
  std::chrono::steady_clock::time_point last_drawn_{};
  RateMeter rate_;
};

}  // namespace locksley::cli
