#include <unistd.h>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/output.h"

namespace locksley::cli {

using client::Expected;

namespace {

// How long one LOG waits for more: shorter than the timeouts of proxies.
constexpr std::chrono::milliseconds kLogSlice{10'000};

Expected<void> print_log(client::Client& client, const LogArguments& arguments, bool as_json,
                         Output& output) {
  std::uint64_t offset = 0;
  bool is_over = !arguments.follow;  // nothing more will be written
  while (output.error() == 0) {
    const auto block = is_over ? std::chrono::milliseconds{0} : kLogSlice;
    const auto part = client.log(arguments.id, arguments.index, offset, block);
    if (!part) return std::unexpected(part.error());
    if (!as_json) {
      output.append(part->bytes);
    } else if (!part->bytes.empty()) {
      output.append(json_of_log(part->next - part->bytes.size(), part->bytes) + "\n");
    }
    output.flush();
    // Each attempt has a log of its own: once a new attempt runs, the reply is from the beginning
    // of its log.
    offset = part->next;
    if (!part->bytes.empty()) continue;
    if (is_over) break;
    const auto job = client.job(arguments.id, arguments.index);
    if (!job) return std::unexpected(job.error());
    is_over = job->is_over();
  }
  return {};
}

}  // namespace

int run_log(Context& context, const LogArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  Output output(STDOUT_FILENO, context.signals().fd());
  const auto printed = print_log(*client, arguments, context.json(), output);
  output.flush();
  if (output.error() != 0) return failed_output(output.error());
  if (!printed) return context.fail(printed.error());
  return output.is_empty() ? daemon::kExitOk
                           : context.fail({client::ClientError::Kind::kInterrupted, "", "interrupted"});
}

}  // namespace locksley::cli
