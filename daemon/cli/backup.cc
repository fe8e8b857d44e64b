// backup: a copy of the daemon's store, made while it serves.

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/json.h"
#include "proto/clients/cpp/buffers.h"
#include "proto/command_writer.h"
#include "proto/output_buffer.h"

namespace locksley::cli {

int run_backup(Context& context, const BackupArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  proto::OutputBuffer out;
  proto::CommandWriter(out).command({"BACKUP", arguments.name});
  // A backup may take any time, so there is no deadline. BACKUP is never sent again: a second one
  // would fail, because the folder of the first one exists.
  const auto sent = client->send(client::buffers_of(out), client::Repeat::kNever, client::kNoDeadline);
  if (!sent) return context.fail(sent.error());
  const auto folder = client::to_text(sent->reply);
  if (!folder) return context.fail(folder.error());
  const std::string text = context.json() ? json_object({{"folder", *folder}}) : *folder;
  return print_line(text);
}

}  // namespace locksley::cli
