// list, handlers, tenants, workers, ping, info: commands that only read. With --json they print the
// daemon's whole reply, members that this client does not know included.

#include <chrono>
#include <string>

#include "core/base/job.h"
#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/info_fields.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/status_text.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {

using Align = Table::Align;

namespace {

using client::Client;
using client::Expected;
using proto::Reply;

std::string table_of(const std::vector<client::HandlerInfo>& handlers) {
  Table table({{"HANDLER"},
               {"KIND"},
               {"LANE"},
               {"CONCURRENCY", Align::kRight},
               {"PROCESSES", Align::kRight},
               {"DESCRIPTION"}});
  for (const auto& one : handlers) {
    table.add({one.name, one.kind, one.lane, std::to_string(one.concurrency), std::to_string(one.processes),
               one.description});
  }
  return table.text();
}

std::string table_of(const std::vector<client::TenantInfo>& tenants) {
  Table table({{"TENANT"},
               {"WEIGHT", Align::kRight},
               {"BATCHES", Align::kRight},
               {"QUEUED", Align::kRight},
               {"RUNNING", Align::kRight},
               {"BUSY", Align::kRight},
               {"SHARE DUE", Align::kRight},
               {"RECEIVED", Align::kRight}});
  for (const auto& one : tenants) {
    table.add({one.tenant, std::to_string(one.weight), with_commas(one.batches), with_commas(one.queued),
               with_commas(one.running), short_duration(std::chrono::milliseconds(one.busy_us / 1000)),
               percent(one.share), percent(one.received)});
  }
  return table.text();
}

std::string table_of(const std::vector<client::MachineInfo>& machines) {
  Table table({{"MACHINE"},
               {"SLOTS", Align::kRight},
               {"BUSY", Align::kRight},
               {"LEASES", Align::kRight},
               {"JOBS", Align::kRight},
               {"ROUND TRIP", Align::kRight},
               {"LOST", Align::kRight},
               {"USER"},
               {"HANDLERS"}});
  for (const auto& one : machines) {
    std::string handlers;
    for (const std::string& handler : one.handlers) handlers += (handlers.empty() ? "" : " ") + handler;
    table.add({one.name, with_commas(one.slots), with_commas(one.busy), with_commas(one.leases),
               with_commas(one.jobs), one.rtt_us == 0 ? "-" : with_commas(one.rtt_us) + " us",
               with_commas(one.lost), one.user, handlers});
  }
  return table.text();
}

std::string table_of(const client::WorkerList& workers) {
  Table table({{"WORKER", Align::kRight},
               {"QUEUED", Align::kRight},
               {"EXECUTED", Align::kRight},
               {"STEALS", Align::kRight},
               {"ATTEMPTS", Align::kRight},
               {"STOLEN", Align::kRight},
               {"PARKS", Align::kRight},
               {"BUSY", Align::kRight}});
  for (const auto& one : workers.pool) {
    table.add({std::to_string(one.worker), with_commas(one.queue_depth), with_commas(one.executed),
               with_commas(one.steals), with_commas(one.steal_attempts), with_commas(one.stolen),
               with_commas(one.parks), short_duration(std::chrono::milliseconds(one.busy_us / 1000))});
  }
  if (workers.machines.empty()) return table.text();
  return table.text() + "\n" + table_of(workers.machines);
}

// Shows the reply to a command that lists things.
template <class List>
int show_list(Context& context, Client& client, std::string_view command,
              Expected<List> (*convert)(const Reply&)) {
  const auto reply = client.call({command});
  if (!reply) return context.fail(reply.error());
  if (context.json()) return print_line(json_text(*reply));
  const auto values = convert(*reply);
  if (!values) return context.fail(values.error());
  return print(table_of(*values));
}

int show_ping(Context& context, Client& client) {
  const auto before = now();
  if (const auto answered = client.ping(); !answered) return context.fail(answered.error());
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now() - before);
  const std::string peer = client.address().text();
  if (context.json()) return print_line(json_object({{"address", peer}, {"us", std::int64_t{time.count()}}}));
  return print_line(peer + " answers in " + std::to_string(time.count()) + " us");
}

// INFO's text is `# Section` and `key:value` lines; as JSON, an object of the values.
int show_info(Context& context, Client& client, const std::string& section) {
  const auto reply = section.empty() ? client.call({"INFO"}) : client.call({"INFO", section});
  if (!reply) return context.fail(reply.error());
  if (reply->text.empty()) {
    return context.fail(
        {.kind = client::ClientError::Kind::kRefused,
         .code = "ERR",
         .message = "the daemon has no section '" + section + "': without one, all are shown"});
  }
  if (!context.json()) {
    std::string text = reply->text;
    std::erase(text, '\r');
    return print(text);
  }
  std::vector<std::pair<std::string, JsonValue>> members;
  for (auto& [key, value] : info_fields(reply->text)) members.emplace_back(key, value);
  return print_line(json_object(members));
}

// Batches in one page of LIST: few enough that the page is quickly made and quickly read. Guess.
constexpr std::uint64_t kBatchesAtOnce = 1000;

// Appends all rows of `reply` as JSON to those of earlier pages.
void add_rows(std::string& rows, const Reply& batches, std::uint64_t& room) {
  for (const Reply& batch : batches.elements) {
    if (room == 0) return;
    --room;
    rows += (rows.empty() ? "" : ",") + json_text(batch);
  }
}

}  // namespace

int run_list(Context& context, const ListArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  std::uint64_t room = arguments.limit == 0 ? UINT64_MAX : arguments.limit;
  std::uint64_t cursor = 0;
  std::vector<client::BatchStatus> batches;
  std::string rows;
  do {
    const std::string from = std::to_string(cursor);
    const std::string count = std::to_string(std::min(room, kBatchesAtOnce));
    std::vector<std::string_view> command{"LIST", "CURSOR", from, "COUNT", count};
    if (arguments.customer) command.insert(command.end(), {"FOR", *arguments.customer});
    for (const auto& [option, value] :
         {std::pair<std::string_view, std::string_view>{"STATE", arguments.state},
          {"MATCH", arguments.match},
          {"HANDLER", arguments.handler}}) {
      if (value.empty()) continue;
      command.push_back(option);
      command.push_back(value);
    }
    const auto reply = client->call(command);
    if (!reply) return context.fail(reply.error());
    auto page = client::to_batch_list(*reply);
    if (!page) return context.fail(page.error());
    cursor = page->next_cursor;
    if (context.json()) {
      add_rows(rows, reply->elements[1], room);
    } else {
      for (auto& batch : page->batches) {
        if (room == 0) break;
        --room;
        batches.push_back(std::move(batch));
      }
    }
  } while (cursor != 0 && room > 0);
  return context.json() ? print_line("[" + rows + "]") : print(status_table(batches));
}

int run_server(Context& context, const ServerArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  switch (arguments.command) {
    case ServerArguments::Command::kHandlers:
      return show_list(context, *client, "HANDLERS", &client::to_handlers);
    case ServerArguments::Command::kTenants:
      return show_list(context, *client, "TENANTS", &client::to_tenants);
    case ServerArguments::Command::kWorkers:
      return show_list(context, *client, "WORKERS", &client::to_workers);
    case ServerArguments::Command::kPing:
      return show_ping(context, *client);
    case ServerArguments::Command::kInfo:
      return show_info(context, *client, arguments.section);
  }
  return daemon::kExitSoftware;
}

}  // namespace locksley::cli
