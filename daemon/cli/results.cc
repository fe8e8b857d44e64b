#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/commands.h"
#include "daemon/cli/row_sink.h"

namespace locksley::cli {

using client::Client;
using Kind = client::ClientError::Kind;

namespace {

constexpr std::chrono::milliseconds kFollowSlice{10'000};

}  // namespace

int run_results(Context& context, const ResultsArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  Output output(STDOUT_FILENO, context.signals().fd());
  RowSink sink({.json = context.json(),
                .ordered = arguments.ordered,
                .failed_only = arguments.failed,
                .directory = {}},
               output, [&output] { output.flush(); });
  Client::ResultsPosition position;
  while (!position.at_end) {
    const auto block = arguments.follow ? kFollowSlice : std::chrono::milliseconds{0};
    const std::uint64_t before = position.cursor;
    const auto read = client->results(
        arguments.id, position, Client::kRowsAtOnce, block,
        [&](const client::ResultRow& row) { sink.add(row); },
        arguments.discard ? Client::Passed::kDiscarded : Client::Passed::kKept,
        arguments.failed ? Client::Rows::kFailed : Client::Rows::kAll);
    if (!read) {
      output.flush();
      return context.fail(read.error());
    }
    output.flush();
    if (output.error() == EPIPE) return daemon::kExitBrokenPipe;
    if (output.error() != 0) {
      return context.fail(
          {Kind::kLocal, "", std::string("standard output: ") + std::strerror(output.error())});
    }
    // Without --follow: the results that exist now.
    if (!arguments.follow && position.cursor == before) break;
  }
  sink.finish();
  return daemon::kExitOk;
}

}  // namespace locksley::cli
