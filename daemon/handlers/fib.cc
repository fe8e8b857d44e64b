#include "daemon/handlers/fib.h"

#include <string>

#include "core/tasks/task_group.h"
#include "daemon/handlers/payload_number.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kMaxFib = 50;

std::uint64_t fib_here(std::uint64_t n) { return n < 2 ? n : fib_here(n - 1) + fib_here(n - 2); }

// Once the job should stop, returns early with a wrong result, which fib_job() drops.
std::uint64_t fib_spawning(Context& context, std::uint64_t n) {
  if (n < kFibCutoff) return fib_here(n);
  if (context.should_stop()) return 0;
  std::uint64_t first = 0;
  TaskGroup group(context);
  group.spawn([&first, n](Context& there) { first = fib_spawning(there, n - 1); });
  const std::uint64_t second = fib_spawning(context, n - 2);
  group.wait();
  return first + second;
}

}  // namespace

void fib_job(JobContext& context, std::string_view payload) {
  const auto n = parse_number(payload, kMaxFib);
  if (!n) return context.fail(n.error());
  const std::uint64_t result = fib_spawning(context, *n);
  if (context.should_stop()) return context.give_up();
  context.write(std::to_string(result));
}

}  // namespace locksley::daemon
