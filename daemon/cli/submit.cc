#include <unistd.h>

#include <cstdio>
#include <optional>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/commands.h"
#include "daemon/cli/feed.h"
#include "daemon/cli/json.h"
#include "proto/clients/cpp/batch_id.h"

namespace locksley::cli {

int run_submit(Context& context, SubmitArguments arguments) {
  if (arguments.batch.id.empty()) {
    arguments.batch.id = client::random_batch_id();
    arguments.has_new_id = true;
  }
  auto client = context.connect(context.signals().fd(), Context::kFeedPatience);
  if (!client) return context.fail(client.error());
  std::optional<std::uint64_t> jobs;  // once the daemon knows the batch
  Feed feed(*client, arguments, STDIN_FILENO, context.signals().fd(),
            {.on_jobs = [&](std::uint64_t count) { jobs = count; }});
  const std::string& id = feed.name();
  if (auto fed = feed.run(); !fed) {
    const int code = context.fail(fed.error());
    if (!jobs && feed.has_sent()) say_it_may_be_there(fed.error(), id);
    if (jobs && is_temporary(fed.error())) {
      say_how_to_go_on(id);
      return code;
    }
    if (fed.error().code == "EXISTS" || fed.error().code == "CLOSED") return code;
    // The batch has only a part of the input, which the user has not asked for.
    if (jobs && client->cancel(id)) {
      std::fprintf(stderr, "locksley: batch %s was cancelled, because its input was incomplete\n",
                   id.c_str());
    }
    return code;
  }
  if (feed.was_there() && !context.json()) say_it_was_there(id);
  const std::string line =
      context.json() ? json_object({{"id", id}, {"jobs", jobs.value_or(0)}, {"was_there", feed.was_there()}})
                     : id;
  return print_line(line);
}

}  // namespace locksley::cli
