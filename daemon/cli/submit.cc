#include <unistd.h>

#include <cstdio>
#include <optional>

#include "daemon/cli/commands.h"
#include "daemon/cli/feed.h"
#include "daemon/cli/json.h"
#include "daemon/exit_codes.h"
#include "proto/client/batch_id.h"

namespace locksley::cli {

int run_submit(Context& context, SubmitArguments arguments) {
  if (arguments.batch.id.empty()) arguments.batch.id = client::random_batch_id();
  const std::string& id = arguments.batch.id;
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  std::optional<std::uint64_t> jobs;  // once the daemon knows the batch
  Feed feed(*client, arguments, STDIN_FILENO, context.signals().fd(),
            [&](std::uint64_t count) { jobs = count; });
  if (auto fed = feed.run(); !fed) {
    const int code = context.fail(fed.error());
    // A part of the input is no batch that anybody asked for.
    if (jobs && client->cancel(id)) {
      std::fprintf(stderr, "locksley: batch %s was cancelled, as its input did not arrive whole\n",
                   id.c_str());
    }
    return code;
  }
  const std::string line = context.json() ? json_object({{"id", id}, {"jobs", jobs.value_or(0)}}) : id;
  return print(line + "\n") ? daemon::kExitOk : daemon::kExitIoError;
}

}  // namespace locksley::cli
