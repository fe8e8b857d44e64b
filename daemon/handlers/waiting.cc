#include "daemon/handlers/waiting.h"

#include <chrono>
#include <ctime>

#include "daemon/handlers/payload_number.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kMaxSleepMilliseconds = 24ULL * 60 * 60 * 1000;
constexpr std::uint64_t kMaxSpinMicroseconds = 60ULL * 60 * 1000 * 1000;

// CPU time of the calling thread. A system call.
Nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

}  // namespace

void sleep_job(JobContext& context, std::string_view payload) {
  const auto milliseconds = parse_number(payload, kMaxSleepMilliseconds);
  if (!milliseconds) return context.fail(milliseconds.error());
  context.sleep_for(std::chrono::milliseconds(*milliseconds));
  context.give_up();  // without effect if nobody asked for it
}

void spin_job(JobContext& context, std::string_view payload) {
  const auto microseconds = parse_number(payload, kMaxSpinMicroseconds);
  if (!microseconds) return context.fail(microseconds.error());
  const Nanoseconds end = thread_cpu_time() + std::chrono::microseconds(*microseconds);
  // CPU time never passes faster than time, so what is missing is spun off by the cheap clock, and the
  // expensive one says whether the processor was ours all the while.
  for (Nanoseconds left = end - thread_cpu_time(); left > Nanoseconds(0); left = end - thread_cpu_time()) {
    const Nanoseconds until = steady_now() + left;
    while (steady_now() < until) {
      if (context.should_stop()) return context.give_up();
    }
  }
}

}  // namespace locksley::daemon
