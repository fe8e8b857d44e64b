#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "daemon/rate_gate.h"
#include "daemon/server/batch_record.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The way from the workers to the I/O thread: batches whose record changed, each at most once, with one
// wake-up for all that gather until the I/O thread comes. A worker tells of every claim; the I/O thread hears
// at once of the end of a batch, and of new results where a client waits for them. Other changes
// wake it about once in kHoldOff.
//
// Owned by the Server; outlives all batches that were made with it. batch_changed() may be called by any
// thread; it takes a mutex for the length of a push, and a wake-up is a write to an eventfd. Of a RUN only
// its end is of interest, unless something may be due of it: its start would cost the worker a wake-up just
// before the job.
class ChangeQueue final : public BatchObserver {
 public:
  struct Taken {
    std::vector<std::shared_ptr<BatchRecord>> records;
    bool comes_again = false;  // the caller has to call again after kHoldOff
  };

  // `wake` has the I/O thread call take(), soon; it is called from any thread.
  ChangeQueue(std::function<void()> wake, std::shared_ptr<spdlog::logger> log);

  void batch_changed(const std::shared_ptr<Batch>& batch) override;
  void handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) override;
  void job_tried_in_vain(const Batch& batch, std::uint64_t index, JobStatus status,
                         std::string_view output) override;

  // I/O thread: what changed since the last call. A change after it comes again. If some of it is not over,
  // changes that are not urgent no longer wake the I/O thread: so it comes again by itself.
  Taken take();

  static constexpr std::chrono::milliseconds kHoldOff{2};
  static constexpr std::uint32_t kMostLines = 20;  // a second, for people who look for something

 private:
  const std::function<void()> wake_;
  // How many were held back since the last; nothing: this one is, too.
  std::optional<std::uint64_t> open(RateGate& gate);

  const std::shared_ptr<spdlog::logger> log_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::shared_ptr<BatchRecord>> changed_;
  bool goes_on_ = false;      // one of them was not over when it was queued
  bool woken_ = false;        // the I/O thread is on its way to take()
  bool holding_off_ = false;  // it comes by itself, in kHoldOff at most
  std::mutex gates_mutex_;
  // Guarded by gates_mutex_:
  RateGate threw_{std::chrono::seconds(1)};
  RateGate tried_{std::chrono::seconds(1), kMostLines};
};

}  // namespace locksley::daemon
