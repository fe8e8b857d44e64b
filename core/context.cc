#include "core/context.h"

#include <algorithm>
#include <thread>

#include "core/batch.h"
#include "core/result_writer.h"
#include "core/worker.h"

namespace locksley {

std::string_view Context::batch_id() const { return frame_.batch->options().id; }
std::uint32_t Context::attempt() const { return frame_.batch->attempt(frame_.index); }
std::string_view Context::tenant() const { return frame_.batch->options().tenant; }
std::string_view Context::trace() const { return frame_.batch->options().trace; }

StopReason Context::stop_reason() const {
  if (frame_.batch->is_stopping()) return StopReason::cancelled;
  if (frame_.time_limit.count() != 0 && steady_now() > frame_.time_limit) return StopReason::timeout;
  return StopReason::none;
}

void Context::sleep_for(Nanoseconds duration) const {
  constexpr Nanoseconds kLook = std::chrono::milliseconds(5);
  const Nanoseconds end = steady_now() + duration;
  for (Nanoseconds now = steady_now(); now < end && !should_stop(); now = steady_now()) {
    std::this_thread::sleep_for(std::min(end - now, kLook));
  }
}

void JobContext::write(std::string_view bytes) { output_.write(bytes); }

char* JobContext::write_space(std::size_t size) { return output_.write_space(size); }

void JobContext::fail(std::string_view message) {
  status_ = JobStatus::error;
  output_.clear_output();
  output_.write(message);
}

void JobContext::give_up() {
  switch (stop_reason()) {
    case StopReason::none:
      return;
    case StopReason::cancelled:
      status_ = JobStatus::cancelled;
      output_.clear_output();
      output_.write("cancelled");
      return;
    case StopReason::timeout:
      status_ = JobStatus::timeout;
      output_.clear_output();
      output_.write("timed out");
      return;
  }
}

}  // namespace locksley
