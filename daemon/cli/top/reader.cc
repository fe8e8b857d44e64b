#include "daemon/cli/top/reader.h"

#include <algorithm>
#include <set>

#include "core/base/job.h"
#include "proto/clients/cpp/connection.h"
#include "proto/clients/cpp/route.h"
#include "proto/command_writer.h"
#include "proto/output_buffer.h"

namespace locksley::cli {

using client::Expected;
using proto::Reply;

namespace {

// The first refusal is shown: the others are likely to say the same.
bool is_refused(const Reply& reply, TopSnapshot& snapshot) {
  if (reply.is_error() && snapshot.refusal.empty()) snapshot.refusal = reply.text;
  return reply.is_error();
}

template <class Value>
Expected<void> take_value(const Reply& reply, Expected<Value> (*convert)(const Reply&), TopSnapshot& snapshot,
                          Value& into) {
  if (is_refused(reply, snapshot)) return {};
  auto value = convert(reply);
  if (!value) return std::unexpected(std::move(value.error()));
  into = std::move(*value);
  return {};
}

}  // namespace

Expected<std::vector<Reply>> TopReader::ask_all(const std::vector<Command>& commands) {
  proto::OutputBuffer out;
  proto::CommandWriter writer(out);
  for (const Command& command : commands) {
    writer.begin(command.size());
    for (const std::string& word : command) writer.argument(word);
  }
  const std::string bytes = out.to_string();
  connection_.send(bytes);
  std::vector<Reply> replies;
  const client::Deadline deadline = client::deadline_in(kPatience);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    auto reply = connection_.read(deadline);
    if (!reply) {
      connection_.close();  // before `bytes` is destroyed, which it may still be writing
      return std::unexpected(std::move(reply.error()));
    }
    replies.push_back(std::move(*reply));
  }
  return replies;
}

Expected<Reply> TopReader::ask(const std::vector<std::string>& command) {
  auto replies = ask_all({command});
  if (!replies) return std::unexpected(std::move(replies.error()));
  return std::move(replies->front());
}

Expected<TopSnapshot> TopReader::read_snapshot(const TopDemand& demand) {
  TopSnapshot snapshot;
  auto replies =
      ask_all({{"INFO", "server", "clients", "persistence", "locksley", "lanes"}, {"WORKERS"}, {"TENANTS"}});
  if (!replies) return std::unexpected(std::move(replies.error()));
  for (const Reply& reply : *replies) {
    if (!reply.is_error()) continue;
    client::ClientError error = client::refused(reply.text);
    if (client::is_elsewhere(error.code)) return std::unexpected(std::move(error));
  }
  snapshot.at = now();
  const Reply& info = (*replies)[0];
  if (!is_refused(info, snapshot)) {
    snapshot.server = to_top_server(info.text);
    snapshot.lanes = to_top_lanes(info.text);
  }
  client::WorkerList workers;
  if (auto taken = take_value((*replies)[1], &client::to_workers, snapshot, workers); !taken)
    return std::unexpected(std::move(taken.error()));
  snapshot.workers = std::move(workers.pool);
  snapshot.machines = std::move(workers.machines);
  if (auto taken = take_value((*replies)[2], &client::to_tenants, snapshot, snapshot.tenants); !taken)
    return std::unexpected(std::move(taken.error()));
  if (auto listed = list_batches(snapshot); !listed) return std::unexpected(std::move(listed.error()));
  if (auto explained = explain(demand, snapshot); !explained)
    return std::unexpected(std::move(explained.error()));
  if (!demand.detail) return snapshot;
  if (auto looked = look_closely(*demand.detail, snapshot); !looked)
    return std::unexpected(std::move(looked.error()));
  return snapshot;
}

// Lists the unfinished batches by state, so that they are found among any number of batches that
// are over; and the newest batches, most of which are over.
Expected<void> TopReader::list_batches(TopSnapshot& snapshot) {
  struct List {
    std::vector<std::string> filter;
    std::size_t room;
    bool is_of_active;
    std::string cursor = "0";
    bool at_end = false;
  };
  List lists[] = {{{"STATE", "running"}, kMostInState, true},
                  {{"STATE", "open"}, kMostInState, true},
                  {{"STATE", "queued"}, kMostInState, true},
                  {{}, kNewest, false}};
  std::set<std::string> seen;
  for (int page = 0; page < kMostPages; ++page) {
    std::vector<Command> commands;
    std::vector<List*> asked;
    for (List& list : lists) {
      if (list.at_end || list.room == 0) continue;
      Command command{"LIST", "CURSOR", list.cursor, "COUNT", std::to_string(list.room)};
      command.insert(command.end(), list.filter.begin(), list.filter.end());
      commands.push_back(std::move(command));
      asked.push_back(&list);
    }
    if (commands.empty()) break;
    auto replies = ask_all(commands);
    if (!replies) return std::unexpected(std::move(replies.error()));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      List& list = *asked[i];
      if (is_refused((*replies)[i], snapshot)) {
        list.at_end = true;
        continue;
      }
      auto batches = client::to_batch_list((*replies)[i]);
      if (!batches) return std::unexpected(std::move(batches.error()));
      list.cursor = std::to_string(batches->next_cursor);
      list.at_end = batches->next_cursor == 0;
      list.room -= std::min(list.room, batches->batches.size());
      for (client::BatchStatus& batch : batches->batches) {
        if (seen.insert(key_of(batch)).second) snapshot.batches.push_back(std::move(batch));
      }
    }
  }
  for (const List& list : lists) snapshot.has_all_active &= list.at_end || !list.is_of_active;
  return {};
}

Expected<void> TopReader::explain(const TopDemand& demand, TopSnapshot& snapshot) {
  std::vector<Command> commands;
  for (const TopBatchName& batch : demand.explained) commands.push_back({"EXPLAIN", batch.wire});
  auto replies = ask_all(commands);
  if (!replies) return std::unexpected(std::move(replies.error()));
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if ((*replies)[i].is_error()) continue;  // for example, it was forgotten meanwhile
    auto explanation = client::to_explanation((*replies)[i]);
    if (!explanation) return std::unexpected(std::move(explanation.error()));
    snapshot.explanations.emplace(demand.explained[i].key, std::move(*explanation));
  }
  return {};
}

Expected<void> TopReader::look_closely(const TopBatchName& batch, TopSnapshot& snapshot) {
  auto replies = ask_all({{"STATUS", batch.wire}, {"EXPLAIN", batch.wire}});
  if (!replies) return std::unexpected(std::move(replies.error()));
  if (detail_.key != batch.key) {
    detail_ = TopDetail{};
    detail_.key = batch.key;
    cursor_ = 0;
  }
  const std::uint64_t retried = detail_.status ? detail_.status->retried : 0;
  detail_.error.clear();
  for (const Reply& reply : *replies) {
    if (reply.is_error()) detail_.error = reply.text;
  }
  detail_.status.reset();
  if (detail_.error.empty()) {
    auto status = client::to_status((*replies)[0]);
    if (!status) return std::unexpected(std::move(status.error()));
    auto explanation = client::to_explanation((*replies)[1]);
    if (!explanation) return std::unexpected(std::move(explanation.error()));
    // After a RETRY the rows of the jobs that had failed are left out, and new rows follow.
    if (status->retried != retried) detail_.saw_all_rows = false;
    if (status->failed < detail_.failures.size()) {
      detail_.failures.clear();
      detail_.rows_looked_at = 0;
      cursor_ = 0;
    }
    detail_.status = std::move(*status);
    detail_.explanation = std::move(*explanation);
    if (auto looked = look_for_failures(batch); !looked) return looked;
  }
  snapshot.detail = detail_;
  return {};
}

// Reads a part of the batch's results for each snapshot: there may be ten million rows before the
// first failure.
Expected<void> TopReader::look_for_failures(const TopBatchName& batch) {
  if (detail_.failures.size() >= std::min<std::uint64_t>(detail_.status->failed, TopDetail::kMostFailures) ||
      detail_.saw_all_rows) {
    return {};
  }
  auto reply =
      ask({"RESULTS", batch.wire, "FROM", std::to_string(cursor_), "COUNT", std::to_string(kRowsAtOnce)});
  if (!reply) return std::unexpected(std::move(reply.error()));
  if (reply->is_error()) {
    detail_.error = reply->text;
    return {};
  }
  if (!reply->is_aggregate() || reply->elements.size() != 2 || !reply->elements[1].is_aggregate())
    return connection_.protocol_error("the reply to RESULTS");
  const auto next = reply->elements[0].to_integer().value_or(0);
  for (const Reply& row : reply->elements[1].elements) {
    if (!row.is_aggregate() || row.elements.size() != 3)
      return connection_.protocol_error("a row of the reply to RESULTS");
    ++detail_.rows_looked_at;
    const std::string& status = row.elements[1].text;
    if (status == "ok" || status == "cancelled" || detail_.failures.size() >= TopDetail::kMostFailures)
      continue;
    detail_.failures.push_back(
        {static_cast<std::uint64_t>(row.elements[0].to_integer().value_or(0)), status, row.elements[2].text});
  }
  if (next == 0) {
    detail_.saw_all_rows = true;
  } else {
    cursor_ = static_cast<std::uint64_t>(next);
  }
  return {};
}

}  // namespace locksley::cli
