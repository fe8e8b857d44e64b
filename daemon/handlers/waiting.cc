#include "daemon/handlers/waiting.h"

#include <chrono>

#include "daemon/base/loop/processor_time.h"
#include "daemon/handlers/payload_number.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kMaxSleepMilliseconds = std::chrono::milliseconds(kLongestWait).count();
constexpr std::uint64_t kMaxSpinMicroseconds = std::chrono::microseconds(kLongestWait).count();

}  // namespace

void sleep_job(JobContext& context, std::string_view payload) {
  const auto milliseconds = parse_number(payload, kMaxSleepMilliseconds);
  if (!milliseconds) return context.fail(milliseconds.error());
  context.sleep_for(std::chrono::milliseconds(*milliseconds));
  context.give_up();  // without effect if the job was not asked to stop
}

void spin_job(JobContext& context, std::string_view payload) {
  const auto microseconds = parse_number(payload, kMaxSpinMicroseconds);
  if (!microseconds) return context.fail(microseconds.error());
  const Nanoseconds end = processor_time() + std::chrono::microseconds(*microseconds);
  // CPU time never passes faster than real time. So the loop spins by the steady clock, which is
  // cheap, and then asks the CPU clock, which needs a system call, how much is still missing.
  for (Nanoseconds left = end - processor_time(); left > Nanoseconds(0); left = end - processor_time()) {
    const Nanoseconds until = steady_now() + left;
    while (steady_now() < until) {
      if (context.should_stop()) return context.give_up();
    }
  }
}

}  // namespace locksley::daemon
