// A handler: what runs a job. The interface that native code implements.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/handler_stats.h"

namespace locksley {

class JobContext;

// Runs one job: writes its output to the context, or calls context.fail(). What it throws becomes the job's
// error. Called from any worker, from many at once; must not keep the payload's view. See core/context.h for
// what it can do.
using NativeHandler = std::function<void(JobContext& context, std::string_view payload)>;

// A named handler and what it has done so far. Made by whoever registers handlers, before the first batch
// that uses it, and outlives the last one. Constant but for `stats`, which is thread-safe, and for what
// describe() and run_with() change.
class Handler {
 public:
  Handler(std::string name, std::string description, NativeHandler run)
      : name_(std::move(name)), description_(std::move(description)), run_(std::move(run)) {}
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const NativeHandler& native() const { return run_; }

  // By the thread that asks for the description.
  void describe(std::string description) { description_ = std::move(description); }
  // Its jobs are run by this from now on. While none runs and none can begin: the queues of all its batches
  // are paused, and FairRing::has_claims() has denied it for each (whose mutex is what orders this call
  // behind the jobs before it, and before those behind it).
  void run_with(NativeHandler run) { run_ = std::move(run); }

  HandlerStats stats;

 private:
  const std::string name_;
  std::string description_;
  NativeHandler run_;
};

}  // namespace locksley
