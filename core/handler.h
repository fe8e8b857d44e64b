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
// that uses it, and outlives the last one. Constant but for `stats`, which is thread-safe.
class Handler {
 public:
  Handler(std::string name, std::string description, NativeHandler run)
      : name_(std::move(name)), description_(std::move(description)), run_(std::move(run)) {}
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const NativeHandler& native() const { return run_; }

  HandlerStats stats;

 private:
  const std::string name_;
  const std::string description_;
  const NativeHandler run_;
};

}  // namespace locksley
