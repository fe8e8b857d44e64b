// customers, customer get, customer set, customer del. With --json they print the daemon's whole
// reply, members that this client does not know included.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/output.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {

using Align = Table::Align;
using client::Client;
using client::CustomerInfo;

namespace {

// Customers in one page of CUSTOMER LIST: few enough that the daemon makes the page quickly. Guess.
constexpr std::uint64_t kCustomersAtOnce = 1000;

std::string cap(std::uint64_t number) { return number == 0 ? "-" : with_commas(number); }
std::string cap(const std::string& rate) { return rate == "0" || rate.empty() ? "-" : rate; }

std::string table_of(const std::vector<CustomerInfo>& customers) {
  Table table({{"CUSTOMER"},
               {"TENANT"},
               {"WEIGHT", Align::kRight},
               {"SLOTS", Align::kRight},
               {"RATE", Align::kRight},
               {"MAX JOBS", Align::kRight},
               {"BATCHES", Align::kRight},
               {"JOBS", Align::kRight},
               {"RUNNING", Align::kRight},
               {"SHARE DUE", Align::kRight},
               {"RECEIVED", Align::kRight}});
  for (const CustomerInfo& one : customers) {
    table.add({one.customer.empty() ? "-" : one.customer, one.tenant, std::to_string(one.weight),
               cap(one.slots), cap(one.rate), cap(one.max_jobs), with_commas(one.batches),
               with_commas(one.jobs), with_commas(one.running), percent(one.share), percent(one.received)});
  }
  return table.text();
}

std::string text_of(const CustomerInfo& customer) {
  Table table({{"customer"}, {customer.customer}});
  table.add({"tenant", customer.tenant});
  table.add({"weight", std::to_string(customer.weight)});
  table.add({"slots", cap(customer.slots)});
  table.add({"rate", cap(customer.rate)});
  table.add({"max jobs", cap(customer.max_jobs)});
  table.add({"settings", customer.is_set ? "its own" : "the default's"});
  table.add({"batches", with_commas(customer.batches)});
  table.add({"jobs", with_commas(customer.jobs)});
  table.add({"queued", with_commas(customer.queued)});
  table.add({"running", with_commas(customer.running)});
  table.add({"share due", percent(customer.share)});
  table.add({"received", percent(customer.received)});
  return table.text();
}

int get(Context& context, Client& client, const std::string& name) {
  const auto reply = client.call({"CUSTOMER", "GET", name});
  if (!reply) return context.fail(reply.error());
  const auto customer = client::to_customer(*reply);
  if (!customer) return context.fail(customer.error());
  if (context.json()) return print_line(json_text(*reply));
  return print(text_of(*customer));
}

}  // namespace

int run_customers(Context& context, const CustomersArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  std::uint64_t room = arguments.limit == 0 ? UINT64_MAX : arguments.limit;
  std::uint64_t cursor = 0;
  std::vector<CustomerInfo> customers;
  std::string rows;
  do {
    const std::string from = std::to_string(cursor);
    const std::string count = std::to_string(std::min(room, kCustomersAtOnce));
    std::vector<std::string_view> command{"CUSTOMER", "LIST", "CURSOR", from, "COUNT", count};
    if (!arguments.match.empty()) command.insert(command.end(), {"MATCH", arguments.match});
    const auto reply = client->call(command);
    if (!reply) return context.fail(reply.error());
    auto page = client::to_customer_list(*reply);
    if (!page) return context.fail(page.error());
    cursor = page->next_cursor;
    for (std::size_t i = 0; i < page->customers.size() && room > 0; ++i, --room) {
      if (context.json()) {
        rows += (rows.empty() ? "" : ",") + json_text(reply->elements[1].elements[i]);
      } else {
        customers.push_back(std::move(page->customers[i]));
      }
    }
  } while (cursor != 0 && room > 0);
  if (context.json()) return print_line("[" + rows + "]");
  return print(table_of(customers));
}

int run_customer(Context& context, const CustomerArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  switch (arguments.command) {
    case CustomerArguments::Command::kGet:
      return get(context, *client, arguments.name);
    case CustomerArguments::Command::kSet: {
      if (const auto set = client->set_customer(arguments.name, arguments.changes); !set)
        return context.fail(set.error());
      return context.json() ? print_line(json_object({{"customer", arguments.name}, {"set", true}}))
                            : daemon::kExitOk;
    }
    case CustomerArguments::Command::kDelete:
      break;
  }
  const auto deleted = client->delete_customer(arguments.name);
  if (!deleted) return context.fail(deleted.error());
  if (context.json()) return print_line(json_object({{"customer", arguments.name}, {"deleted", *deleted}}));
  return print_line(*deleted ? "it has the default settings again" : "it had no settings of its own");
}

}  // namespace locksley::cli
