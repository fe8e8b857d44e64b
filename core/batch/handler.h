// Handlers, which run jobs, and the function that native code provides for one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/batch/handler_stats.h"

namespace locksley {

class JobContext;

// Runs one job: writes its output to the context, or calls context.fail(). An exception becomes the
// job's error. Called by any worker, and by many at once. Must not keep the view of the payload.
// core/tasks/context.h says what a job can do.
using NativeHandler = std::function<void(JobContext& context, std::string_view payload)>;

// A named handler, and the counts of what it has done so far.
//
// Owned by the program; made before the first batch that uses it, and outlives the last one. Any
// thread may read the name, and read and write `stats`. The description belongs to the thread that
// calls describe(). The function changes only in run_with(), whose comment says when. Nothing
// blocks or fails.
class Handler {
 public:
  Handler(std::string name, std::string description, NativeHandler run)
      : name_(std::move(name)), description_(std::move(description)), run_(std::move(run)) {}
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const NativeHandler& native() const { return run_; }

  // Called by the thread that reads the description.
  void describe(std::string description) { description_ = std::move(description); }
  // From now on `run` runs its jobs. Needs: no job of the handler runs, and none can begin. For
  // that, all its batches are held, and Lane::View::has_claims() has returned false for each of
  // them since. The ring's mutex, which has_claims() takes, orders run_with() after all earlier
  // jobs and before all later ones.
  void run_with(NativeHandler run) { run_ = std::move(run); }

  HandlerStats stats;

 private:
  const std::string name_;
  std::string description_;
  NativeHandler run_;
};

}  // namespace locksley
