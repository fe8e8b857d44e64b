#include "daemon/cli/text/status_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {

using client::BatchStatus;
using Align = Table::Align;

std::string status_text(const BatchStatus& status) {
  Table table({{"batch"}, {status.id}});
  if (!status.name.empty()) table.add({"name", status.name});
  table.add({"state", status.state});
  table.add({"handler", status.handler});
  table.add({"tenant", status.tenant});
  if (!status.customer.empty()) table.add({"customer", status.customer});
  table.add({"weight", std::to_string(status.weight)});
  if (status.slots > 0) table.add({"slots", with_commas(status.slots)});
  table.add({"jobs", with_commas(status.jobs)});
  table.add({"queued", with_commas(status.queued)});
  table.add({"running", with_commas(status.running)});
  table.add({"ok", with_commas(status.ok)});
  table.add({"failed", with_commas(status.failed)});
  table.add({"cancelled", with_commas(status.cancelled)});
  if (status.retried > 0) table.add({"retried", with_commas(status.retried)});
  if (status.retry_rounds > 0) table.add({"retry rounds", with_commas(status.retry_rounds)});
  table.add({"submitted", local_time(status.submitted_at)});
  table.add({"started", local_time(status.started_at)});
  table.add({"finished", local_time(status.finished_at)});
  return table.text();
}

std::string status_json(const BatchStatus& status) {
  return json_object({{"id", status.id},
                      {"name", status.name},
                      {"handler", status.handler},
                      {"tenant", status.tenant},
                      {"customer", status.customer},
                      {"state", status.state},
                      {"weight", status.weight},
                      {"slots", status.slots},
                      {"jobs", status.jobs},
                      {"queued", status.queued},
                      {"running", status.running},
                      {"ok", status.ok},
                      {"failed", status.failed},
                      {"cancelled", status.cancelled},
                      {"retried", status.retried},
                      {"retry_rounds", status.retry_rounds},
                      {"submitted_at", status.submitted_at},
                      {"started_at", status.started_at},
                      {"finished_at", status.finished_at}});
}

std::string status_table(std::span<const BatchStatus> batches) {
  const bool have_customers =
      std::ranges::any_of(batches, [](const BatchStatus& one) { return !one.customer.empty(); });
  std::vector<Table::Column> columns{{"BATCH"}, {"NAME"}};
  if (have_customers) columns.push_back({"CUSTOMER"});
  columns.insert(columns.end(), {{"HANDLER"},
                                 {"STATE"},
                                 {"WEIGHT", Align::kRight},
                                 {"JOBS", Align::kRight},
                                 {"DONE", Align::kRight},
                                 {"FAILED", Align::kRight},
                                 {"SUBMITTED"}});
  Table table(std::move(columns));
  for (const BatchStatus& one : batches) {
    std::vector<std::string> cells{one.id, one.name};
    if (have_customers) cells.push_back(one.customer.empty() ? "-" : one.customer);
    cells.insert(cells.end(),
                 {one.handler, one.state, std::to_string(one.weight), with_commas(one.jobs),
                  with_commas(one.ended()), with_commas(one.failed), local_time(one.submitted_at)});
    table.add(std::move(cells));
  }
  return table.text();
}

}  // namespace locksley::cli
