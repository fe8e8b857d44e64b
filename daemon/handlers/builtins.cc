#include "daemon/handlers/builtins.h"

#include <string_view>

#include "core/tasks/context.h"
#include "daemon/handlers/fib.h"
#include "daemon/handlers/sha256.h"
#include "daemon/handlers/waiting.h"

namespace locksley::daemon {
namespace {

void echo(JobContext& context, std::string_view payload) { context.write(payload); }

void fail(JobContext& context, std::string_view payload) {
  context.fail(payload.empty() ? "failed as asked" : payload);
}

}  // namespace

std::vector<std::unique_ptr<Handler>> register_builtins() {
  std::vector<std::unique_ptr<Handler>> handlers;
  const auto add = [&](const char* name, const char* description, NativeHandler run) {
    handlers.push_back(std::make_unique<Handler>(name, description, std::move(run)));
  };
  add("echo", "returns its payload", echo);
  add("sha256", "returns the SHA-256 of its payload in hexadecimal", Sha256());
  add("sleep", "holds a worker for as many milliseconds as its payload says", sleep_job);
  add("spin", "uses as many microseconds of CPU as its payload says", spin_job);
  add("fail", "always ends in error, with its payload as the text", fail);
  add("fib", "returns the Fibonacci number of its payload (0 to 50), computed by sub-jobs", fib_job);
  return handlers;
}

}  // namespace locksley::daemon
