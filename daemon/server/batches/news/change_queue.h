// The queue of changed batches, from the workers to the I/O thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/batch/batch.h"
#include "core/sync/mutex.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/server/records/batch_record.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Carries the news of batches from the workers to the I/O thread: each changed batch is queued
// once, and one wake-up serves all that are queued until the I/O thread takes them. Each user has a
// line of its own, and the lines are served round robin. If the batches of user A end faster than
// the I/O thread can apply them, A delays only its own news; the news of user B waits for at most
// one batch of A. A worker reports every claim. It wakes the I/O thread at once for the end of a
// batch, and for new results for which a client waits; for other changes about once per kHoldOff.
// Of a RUN only the end is queued, unless something may be due for it: news of its start would cost
// the worker a wake-up just before the job.
//
// Owned by Batches; outlives all batches that were made with it. Any thread may call the functions
// of BatchObserver; they hold a mutex for the length of a push, and a wake-up is a write to an
// eventfd. take() belongs to the I/O thread. Only allocation fails.
class ChangeQueue final : public BatchObserver {
 public:
  struct Taken {
    std::vector<std::shared_ptr<BatchRecord>> records;
    bool must_call_again = false;  // after kHoldOff
    bool has_more = false;         // the caller has to call again soon
  };

  // `wake` makes the I/O thread call take() soon; it is called from any thread.
  ChangeQueue(std::function<void()> wake, std::shared_ptr<spdlog::logger> log);

  void batch_changed(const std::shared_ptr<Batch>& batch) override;
  void handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) override;
  void attempt_failed(const Batch& batch, std::uint64_t index, JobStatus status,
                      std::string_view output) override;

  // When the caller will next call take(), if Taken asks for no earlier call. kOnWake: after the
  // next wake-up. kScheduled: within kHoldOff, by a timer that is armed already.
  enum class NextTake : std::uint8_t { kOnWake, kScheduled };
  // Batches that have changed since they were last taken, kMostAtOnce of them at most. A batch that
  // changes afterwards is queued again. Changes that are not urgent do not wake the I/O thread if
  // it will call take() anyway: after kScheduled, or if Taken::must_call_again.
  Taken take(NextTake next) LOCKSLEY_EXCLUDES(mutex_);
  static constexpr std::size_t kMostAtOnce = 16;  // applying them takes 100 us or so

  static constexpr std::chrono::milliseconds kHoldOff{2};
  static constexpr std::uint32_t kMostLines = 20;  // a second; a guess: enough to see what is wrong

 private:
  // None: this line is suppressed. Else how many lines were suppressed since the last one.
  std::optional<std::uint64_t> open(RateGate& gate) LOCKSLEY_REQUIRES(gates_mutex_);

  // Constant.
  const std::function<void()> wake_;
  const std::shared_ptr<spdlog::logger> log_;

  Mutex mutex_;
  UserLines<std::shared_ptr<BatchRecord>> changed_ LOCKSLEY_GUARDED_BY(mutex_);
  bool goes_on_ LOCKSLEY_GUARDED_BY(mutex_) = false;  // a batch in changed_ was not over when it was queued
  bool woken_ LOCKSLEY_GUARDED_BY(mutex_) = false;    // the I/O thread was woken, and will call take()
  // The I/O thread will call take() within kHoldOff without a wake-up.
  bool holding_off_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  Mutex gates_mutex_;
  RateGate threw_ LOCKSLEY_GUARDED_BY(gates_mutex_){std::chrono::seconds(1)};
  RateGate attempts_ LOCKSLEY_GUARDED_BY(gates_mutex_){std::chrono::seconds(1), kMostLines};
};

}  // namespace locksley::daemon
