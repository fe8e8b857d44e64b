// The time limit of a worker's jobs, and of its start.
#include <fmt/format.h>

#include <algorithm>

#include "config/units.h"
#include "daemon/base/time.h"
#include "daemon/process/runners/worker_runner.h"

namespace locksley::daemon {
namespace {

// How often the runner checks whether a new process has begun to read: no event says so. The checks
// become rarer, so that a program which never reads costs little. So the job's time limit begins
// late, by a sixteenth of the time that the program took to load. (Guesses.)
constexpr Nanoseconds kStartCheck = std::chrono::milliseconds(20);
constexpr Nanoseconds kSeldomStartCheck = std::chrono::seconds(1);
Nanoseconds next_check_after(Nanoseconds elapsed) {
  return std::clamp(elapsed / 16, kStartCheck, kSeldomStartCheck);
}

// A new process must begin to read its first job within this time and the job's time limit
// together. (A guess: few programs take longer to load.)
constexpr Nanoseconds kLongestStart = std::chrono::minutes(1);

}  // namespace

void WorkerRunner::arm_timeout() {
  const Nanoseconds limit = Nanoseconds(turn_->batch().options().timeout);
  if (limit.count() == 0) return;
  turn_->set_starting(is_starting_);
  const Nanoseconds now = steady_now();
  timeout_.expires_at(Instant(is_starting_ ? now + next_check_after(now - began_) : oldest_since_ + limit));
  timeout_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    check_timeout();
  });
}

void WorkerRunner::check_timeout() {
  if (!has_turn() || turn_->running_jobs() == 0 || verdict_ != Verdict::kNone) return;
  const Nanoseconds limit = Nanoseconds(turn_->batch().options().timeout);
  if (limit.count() == 0) return;
  if (is_starting_) return check_start(limit);
  if (steady_now() < oldest_since_ + limit) return arm_timeout();  // another job runs since
  terminate(Verdict::kTimeout);
}

void WorkerRunner::check_start(Nanoseconds limit) {
  const Nanoseconds longest = limit + kLongestStart;
  if (input_.bytes_read() != 0) {
    is_starting_ = false;
    oldest_since_ = steady_now();
  } else if (steady_now() >= began_ + longest) {
    return refuse_answer(
        fmt::format("did not begin to read its first job within {}",
                    config::to_string(std::chrono::duration_cast<config::Duration>(longest))));
  }
  arm_timeout();
}

}  // namespace locksley::daemon
