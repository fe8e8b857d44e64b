#include "core/tasks/context.h"

#include <algorithm>
#include <thread>

#include "core/batch/batch.h"
#include "core/batch/batch_attempts.h"
#include "core/lane/result_writer.h"

namespace locksley {

std::string_view Context::batch_id() const { return frame_.batch->options().id; }
std::uint32_t Context::attempt() const { return frame_.batch->attempts().of(frame_.index); }
std::string_view Context::tenant() const { return frame_.batch->options().tenant; }
std::string_view Context::trace() const { return frame_.batch->options().trace; }

StopReason Context::stop_reason() const {
  if (frame_.batch->is_aborting()) return StopReason::kCancelled;
  const Instant limit = frame_.time_limit;
  if (limit != kNever && Instant::clock::now() > limit) return StopReason::kTimeout;
  return StopReason::kNone;
}

void Context::sleep_for(Nanoseconds duration) const {
  constexpr Nanoseconds kLook = std::chrono::milliseconds(5);
  const Nanoseconds end = after(steady_now(), duration);
  for (Nanoseconds now = steady_now(); now < end && !should_stop(); now = steady_now()) {
    std::this_thread::sleep_for(std::min(end - now, kLook));
  }
}

void JobContext::write(std::string_view bytes) { output_.write(bytes); }

char* JobContext::write_space(std::size_t size) { return output_.write_space(size); }

void JobContext::fail(std::string_view message) {
  status_ = JobStatus::kError;
  output_.replace_output(message);
}

void JobContext::give_up() {
  switch (stop_reason()) {
    case StopReason::kNone:
      return;
    case StopReason::kCancelled:
      status_ = JobStatus::kCancelled;
      output_.replace_output("cancelled");
      return;
    case StopReason::kTimeout:
      status_ = JobStatus::kTimeout;
      output_.replace_output("timed out");
      return;
  }
}

}  // namespace locksley
