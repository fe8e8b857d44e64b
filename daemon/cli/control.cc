// status, explain, cancel, retry, forget, pause, resume, weight, slots, handler: the commands for
// one batch or handler.

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/status_text.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {
namespace {

using client::Client;
using client::Expected;
using proto::Reply;

std::string explanation_text(const std::string& id, const client::Explanation& explanation) {
  Table table({{"batch"}, {id}});
  table.add({"state", explanation.state});
  table.add({"reason", explanation.reason});
  table.add({"ahead", with_commas(explanation.ahead) + (explanation.ahead == 1 ? " batch" : " batches")});
  table.add({"share due", percent(explanation.share)});
  table.add({"received", percent(explanation.received)});
  table.add({"rate", short_number(explanation.jobs_per_second) + " jobs/s"});
  table.add({"time left", explanation.eta_ms < 0
                              ? "unknown"
                              : short_duration(std::chrono::milliseconds(explanation.eta_ms))});
  return table.text();
}

// The reply to a batch command as a text for people; empty: there is nothing to print.
Expected<std::string> text_of(BatchArguments::Command command, const std::string& id, const Reply& reply) {
  using Command = BatchArguments::Command;
  switch (command) {
    case Command::kStatus: {
      const auto status = client::to_status(reply);
      if (!status) return std::unexpected(status.error());
      return status_text(*status);
    }
    case Command::kExplain: {
      const auto explanation = client::to_explanation(reply);
      if (!explanation) return std::unexpected(explanation.error());
      return explanation_text(id, *explanation);
    }
    case Command::kCancel: {
      const auto count = client::to_count(reply);
      if (!count) return std::unexpected(count.error());
      return with_commas(*count) + (*count == 1 ? " job" : " jobs") + " will not run\n";
    }
    case Command::kForget: {
      const auto count = client::to_count(reply);
      if (!count) return std::unexpected(count.error());
      return *count > 0 ? std::string("forgotten\n") : std::string("not forgotten: it is not over yet\n");
    }
    case Command::kRetry:  // run_retry()
    case Command::kPause:
    case Command::kResume:
      break;
  }
  return std::string();
}

std::string json_of(BatchArguments::Command command, const std::string& id, const Reply& reply) {
  using Command = BatchArguments::Command;
  switch (command) {
    case Command::kStatus:
    case Command::kExplain:
      return json_text(reply);
    case Command::kCancel:
      return json_object({{"id", id}, {"cancelled", reply.integer}});
    case Command::kRetry:
      break;  // run_retry()
    case Command::kForget:
      return json_object({{"id", id}, {"forgotten", reply.integer > 0}});
    case Command::kPause:
      return json_object({{"id", id}, {"paused", true}});
    case Command::kResume:
      return json_object({{"id", id}, {"paused", false}});
  }
  return {};
}

std::string_view name_of(BatchArguments::Command command) {
  using Command = BatchArguments::Command;
  switch (command) {
    case Command::kStatus:
      return "STATUS";
    case Command::kExplain:
      return "EXPLAIN";
    case Command::kCancel:
      return "CANCEL";
    case Command::kRetry:
      return "RETRY";
    case Command::kForget:
      return "FORGET";
    case Command::kPause:
      return "PAUSE";
    case Command::kResume:
      return "RESUME";
  }
  return {};
}

int run_retry(Context& context, Client& client, const BatchArguments& arguments) {
  const std::string& id = arguments.id;
  const auto count = client.retry(id, arguments.indexes);
  if (!count) return context.fail(count.error());
  std::string text;
  if (context.json()) {
    text = json_object({{"id", id}, {"retried", *count ? JsonValue(**count) : JsonValue(nullptr)}}) + "\n";
  } else if (*count) {
    text = with_commas(**count) + (**count == 1 ? " job" : " jobs") + " queued again\n";
  } else {
    text = "its failed jobs are queued again; the reply with their number was lost\n";
  }
  return print(text);
}

}  // namespace

int run_batch(Context& context, const BatchArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  if (arguments.command == BatchArguments::Command::kRetry) return run_retry(context, *client, arguments);
  const auto reply = client->call({name_of(arguments.command), arguments.id});
  if (!reply) return context.fail(reply.error());
  const bool nothing_forgotten = arguments.command == BatchArguments::Command::kForget && reply->integer == 0;
  if (nothing_forgotten && !context.json()) {
    // FORGET replies 0 for a batch that does not exist, too.
    const auto status = client->status(arguments.id);
    if (!status && status.error().code == "NOBATCH") return context.fail(status.error());
  }
  const auto text = context.json()
                        ? Expected<std::string>(json_of(arguments.command, arguments.id, *reply) + "\n")
                        : text_of(arguments.command, arguments.id, *reply);
  if (!text) return context.fail(text.error());
  if (const int code = print(*text); code != daemon::kExitOk) return code;
  return nothing_forgotten ? daemon::kExitDataError : daemon::kExitOk;
}

int run_weight(Context& context, const WeightArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  if (auto set = client->set_weight(arguments.id, arguments.weight); !set) return context.fail(set.error());
  if (!context.json()) return daemon::kExitOk;
  const std::string line = json_object({{"id", arguments.id}, {"weight", std::uint64_t{arguments.weight}}});
  return print_line(line);
}

int run_slots(Context& context, const SlotsArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  if (auto set = client->set_slots(arguments.id, arguments.slots); !set) return context.fail(set.error());
  if (!context.json()) return daemon::kExitOk;
  const std::string line = json_object({{"id", arguments.id}, {"slots", std::uint64_t{arguments.slots}}});
  return print_line(line);
}

int run_handler(Context& context, const HandlerArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  const auto reply = client->call({"HANDLER", "RESTART", arguments.name});
  if (!reply) return context.fail(reply.error());
  const auto count = client::to_count(*reply);
  if (!count) return context.fail(count.error());
  const std::string text =
      context.json() ? json_object({{"handler", arguments.name}, {"restarted", *count}})
                     : with_commas(*count) + (*count == 1 ? " process is replaced"
                                                          : " processes are replaced, one after the other");
  return print_line(text);
}

}  // namespace locksley::cli
