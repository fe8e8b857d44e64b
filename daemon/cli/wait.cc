#include "core/base/job.h"
#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/context/progress.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/status_text.h"

namespace locksley::cli {
namespace {

using client::BatchStatus;
using client::Deadline;

// The progress on the screen is never older than this.
constexpr std::chrono::milliseconds kStatusSlice{250};

ProgressCounts counts(const BatchStatus& status) {
  return {.done = status.ended(),
          .failed = status.failed + status.cancelled,
          .total = status.jobs,
          .is_open = status.state == "open"};
}

client::Expected<BatchStatus> wait_with_progress(client::Client& client, const std::string& id,
                                                 Deadline deadline, Progress& progress) {
  for (;;) {
    auto status = client.wait(id, client::earlier(deadline, client::deadline_in(kStatusSlice)));
    if (!status) return status;
    if (status->is_over()) progress.finish(counts(*status));
    if (status->is_over() || now() >= deadline) return status;
    progress.update(counts(*status));
  }
}

}  // namespace

int run_wait(Context& context, const WaitArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  const Deadline deadline = arguments.timeout ? client::deadline_in(*arguments.timeout) : client::kNoDeadline;
  client::Expected<BatchStatus> status;
  {
    Progress progress(arguments.progress ? WhenProgress::kAlways : WhenProgress::kNever, "");
    status = progress.is_shown() ? wait_with_progress(*client, arguments.id, deadline, progress)
                                 : client->wait(arguments.id, deadline);
  }
  if (!status) return context.fail(status.error());
  const int printed = print(context.json() ? status_json(*status) + "\n" : status_text(*status));
  if (printed != daemon::kExitOk) return printed;
  if (!status->is_over()) return daemon::kExitTemporary;
  return status->is_all_ok() ? daemon::kExitOk : daemon::kExitJobsFailed;
}

}  // namespace locksley::cli
