#include <unistd.h>

#include <cstdio>
#include <optional>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/feed/feed.h"
#include "daemon/cli/feed/payload_source.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/table.h"
#include "proto/clients/cpp/batch_id.h"

namespace locksley::cli {

namespace {

using Kind = client::ClientError::Kind;

// Cancels a batch that has only a part of its input: the user has not asked for such a batch.
void cancel_part(client::Client& client, const std::string& id, bool is_interrupted) {
  const auto jobs = client.cancel(id);
  if (!jobs) {
    if (is_outcome_unknown(jobs.error())) say_it_may_be_cancelled(id);
    return;
  }
  std::fprintf(stderr, "locksley: batch %s was cancelled, because its input was incomplete%s\n",
               printable(id).c_str(), is_interrupted ? "; with --id it would have been left open" : "");
}

// The exit status for a batch that was there before, with all jobs.
int after_it_was_there(client::Client& client, const std::string& id, bool is_quiet) {
  const auto status = client.status(id);
  const bool is_cancelled = status && (status->state == "cancelled" || status->cancelled > 0);
  if (is_cancelled) {
    std::fprintf(
        stderr,
        "locksley: batch %s was there already, and is cancelled: %s of its %s jobs have run; another "
        "--id submits all of them anew\n",
        printable(id).c_str(), with_commas(status->ok + status->failed).c_str(),
        with_commas(status->jobs).c_str());
    return daemon::kExitJobsFailed;
  }
  if (!is_quiet) say_it_was_there(id);
  return daemon::kExitOk;
}

}  // namespace

int run_submit(Context& context, SubmitArguments arguments) {
  if (arguments.batch.id.empty()) {
    arguments.batch.id = client::random_batch_id();
    arguments.has_new_id = true;
  }
  auto client = context.connect(context.signals().fd(), Context::kFeedPatience);
  if (!client) return context.fail(client.error());
  say_if_terminal_is_read(arguments.payloads);
  std::optional<std::uint64_t> jobs;  // once the daemon knows the batch
  Feed feed(*client, arguments, STDIN_FILENO, context.signals().fd(),
            {.on_jobs = [&](std::uint64_t count) { jobs = count; }});
  const std::string& id = feed.name();
  if (auto fed = feed.run(); !fed) {
    const int code = context.fail(fed.error());
    const bool is_interrupted = fed.error().kind == Kind::kInterrupted;
    if (!jobs && feed.has_sent()) say_it_may_be_there(fed.error(), id);
    if (!jobs || fed.error().code == "EXISTS" || fed.error().code == "CLOSED") return code;
    // A user who has named the batch can repeat the command. A user who has not named it does not
    // expect a batch to stay after Ctrl-C.
    if (is_temporary(fed.error()) || (is_interrupted && !arguments.has_new_id)) {
      say_how_to_go_on(id);
    } else {
      cancel_part(*client, id, is_interrupted);
    }
    return code;
  }
  const int code = feed.was_there() ? after_it_was_there(*client, id, context.json()) : int{daemon::kExitOk};
  const std::string line =
      context.json() ? json_object({{"id", id}, {"jobs", jobs.value_or(0)}, {"was_there", feed.was_there()}})
                     : id;
  const int printed = print_line(line);
  return printed == daemon::kExitOk ? code : printed;
}

}  // namespace locksley::cli
