// Lists of batches, single batches, and the failures of their jobs.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "daemon/base/loop/processor_time.h"
#include "daemon/http/api/api.h"
#include "daemon/http/api/api_json.h"
#include "daemon/server/records/listing.h"
#include "daemon/server/records/results_page.h"
#include "proto/glob.h"

namespace locksley::daemon {
namespace {

// A page of batches explains why each batch waits, which takes up to 0.1 ms a batch: no row is
// added after this time. It includes list_page(), which takes a millisecond at most. Together with
// the slices of others before it (Slices::kRound) it stays below 2 ms, the most that the I/O thread
// may take at once.
constexpr auto kPageTime = std::chrono::microseconds(1200);
// For one page of failures: the most rows that are visited, and the most bytes that may be read
// from the disk.
constexpr std::uint64_t kMaxRows = 10'000;     // a millisecond
constexpr std::uint64_t kMaxBytes = 1U << 20;  // the same
constexpr std::size_t kShownOutput = 1000;

Json row_of(const ServerState& state, BatchRecord& record, const BatchStatus& status)
    LOCKSLEY_REQUIRES(kIoThread) {
  Json row = Json::object();
  visit_members(record, status, JsonMembers(row));
  visit_members(explain(state, record, status), JsonMembers(row));
  row["lane"] = record.lane->name();
  return row;
}

Json timeline_of(const BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread) {
  std::vector<std::pair<std::int64_t, const char*>> events;
  const auto was = [&](std::int64_t at, const char* event) {
    if (at != 0) events.emplace_back(at, event);
  };
  was(status.submitted_at, "submitted");
  was(status.started_at, "started");
  was(status.finished_at, "finished");
  const auto wall = wall_now().time_since_epoch();
  const Instant steady = now();
  const auto comes = [&](Instant at, const char* event) {
    if (at == kNever) return;
    const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(wall + (at - steady));
    events.emplace_back(since_epoch.count(), event);
  };
  comes(record.due.start, "starts");
  comes(record.due.retry, "next_try");
  comes(record.due.deadline, "deadline");
  comes(record.due.close, "closes");
  comes(record.due.forget, "forgotten");
  std::ranges::stable_sort(events, {}, [](const auto& event) { return event.first; });
  Json timeline = Json::array();
  for (const auto& [at, event] : events) timeline.push_back({{"at", at}, {"event", event}});
  return timeline;
}

// The values of `state` besides the states of LIST.
std::optional<std::string> set_state(ListDemand& demand, const std::string& state) {
  if (state == "active") {
    demand.active_only = true;
    return std::nullopt;
  }
  if (state == "failed") {
    demand.matches_status = [](const BatchStatus& status) { return status.failed != 0; };
    return std::nullopt;
  }
  for (const BatchState known : {BatchState::kOpen, BatchState::kQueued, BatchState::kRunning,
                                 BatchState::kDone, BatchState::kCancelled}) {
    if (state != to_string(known)) continue;
    demand.active_only = known != BatchState::kDone && known != BatchState::kCancelled;
    demand.matches_status = [known](const BatchStatus& status) { return status.state == known; };
    return std::nullopt;
  }
  return "ERR state must be active, failed, open, queued, running, done or cancelled";
}

Json cursor_text(std::uint64_t cursor) { return cursor == 0 ? Json() : Json(std::to_string(cursor)); }

// Written as text, row by row: so that the time for a row has all that it costs.
HttpReply batches_reply(std::uint64_t next, std::string_view rows) {
  std::string text = "{\"cursor\":" + json_text(cursor_text(next)) + ",\"batches\":[";
  text += rows;
  return json_text_reply(std::move(text) + "]}");
}

// The failed jobs of a page, at most `count`.
HttpReply failures_of(const ResultsPage& page, std::uint64_t rows, std::uint64_t count) {
  Json failures = Json::array();
  std::uint64_t next = page.first + page.rows;
  visit_results(page, [&](std::uint64_t place, const ResultRow& row) {
    if (!is_failure(row.status)) return true;
    if (failures.size() == count) {
      next = place;
      return false;
    }
    failures.push_back({{"index", row.index},
                        {"status", to_string(row.status)},
                        {"output", row.output.substr(0, kShownOutput)},
                        {"output_bytes", row.output.size()}});
    return true;
  });
  return json_reply({{"cursor", cursor_text(next < rows ? next + 1 : 0)}, {"failures", std::move(failures)}});
}

}  // namespace

HttpReply Api::batches(const HttpRequest& request) const {
  const auto user = admitted(request, proto::CommandGroup::kRead, "list");
  if (!user) return json_error(user.error());
  static constexpr std::array<std::string_view, 7> kParameters = {"state", "handler", "tenant", "customer",
                                                                  "match", "cursor",  "count"};
  const auto query = Query::parse(request.query, kParameters);
  if (!query) return json_error("ERR " + query.error());
  const auto cursor = query->cursor();
  if (!cursor) return json_error("ERR " + cursor.error());
  const auto count = query->number("count", {1, 200, 50});
  if (!count) return json_error("ERR " + count.error());

  ListDemand demand{.cursor = *cursor, .count = *count};
  if (!(*user)->is_admin()) demand.tenant = &(*user)->tenant();
  if (const std::string* state = query->find("state")) {
    if (const auto wrong = set_state(demand, *state)) return json_error(*wrong);
  }
  if (const std::string* tenant = query->find("tenant")) {
    const Tenant* const wanted = state_.batches().registry().tenants().find(*tenant);
    const bool is_seen = wanted != nullptr && ((*user)->is_admin() || wanted == demand.tenant);
    if (!is_seen) return batches_reply(0, {});
    demand.tenant = wanted;
  }
  const std::string* const handler = query->find("handler");
  const std::string* const match = query->find("match");
  if (match != nullptr && match->size() > proto::kMaxGlobBytes) return json_error("ERR match is too long");
  const std::string* const customer = query->find("customer");
  if (handler != nullptr || match != nullptr || customer != nullptr) {
    demand.matches_batch = [handler, match, customer](const BatchRecord& record) {
      return (handler == nullptr || record.handler().name() == *handler) &&
             (customer == nullptr || record.options().customer == *customer) &&
             (match == nullptr || matches_id_or_name(record, *match));
    };
  }
  const auto until = processor_time() + kPageTime;
  const auto listed = list_page(state_.batches().registry(), demand);
  if (!listed) return json_error(listed.error());
  std::uint64_t next = listed->next;
  std::string rows;
  for (const auto& [record, status] : listed->batches) {
    if (!rows.empty()) rows += ',';
    rows += json_text(row_of(state_, *record, status));
    const bool is_last = record == listed->batches.back().first;
    if (!is_last && processor_time() > until) {
      next = record->sequence;
      break;
    }
  }
  return batches_reply(next, rows);
}

HttpReply Api::batch(const HttpRequest& request, const std::string& id) const {
  const auto user = admitted(request, proto::CommandGroup::kRead, "status");
  if (!user) return json_error(user.error());
  static constexpr std::array<std::string_view, 1> kParameters = {"tenant"};
  const auto query = Query::parse(request.query, kParameters);
  if (!query) return json_error("ERR " + query.error());
  const auto again = [this, id](const HttpRequest& kept) {
    kIoThread.assert_held();
    return batch(kept, id);
  };
  if (auto reply = after_load(request, **user, id, *query, again)) return *std::move(reply);
  const auto record = find(**user, id, *query);
  if (!record) return json_error(record.error());
  const BatchStatus status = (*record)->status();
  Json row = row_of(state_, **record, status);
  Json after = Json::array();
  for (const Wait& wait : (*record)->waits.all) {
    if (!wait.is_satisfied) after.push_back(wait.id);
  }
  row["after"] = std::move(after);
  row["timeline"] = timeline_of(**record, status);
  return json_reply(row);
}

HttpReply Api::failures(const HttpRequest& request, const std::string& id) const {
  const auto user = admitted(request, proto::CommandGroup::kRead, "results");
  if (!user) return json_error(user.error());
  static constexpr std::array<std::string_view, 3> kParameters = {"tenant", "cursor", "count"};
  const auto query = Query::parse(request.query, kParameters);
  if (!query) return json_error("ERR " + query.error());
  const auto cursor = query->cursor();
  if (!cursor) return json_error("ERR " + cursor.error());
  const auto count = query->number("count", {1, 100, 20});
  if (!count) return json_error("ERR " + count.error());
  const auto again = [this, id](const HttpRequest& kept) {
    kIoThread.assert_held();
    return failures(kept, id);
  };
  if (auto reply = after_load(request, **user, id, *query, again)) return *std::move(reply);
  const auto found = find(**user, id, *query);
  if (!found) return json_error(found.error());

  BatchRecord& record = **found;
  const BatchStatus status = record.status();
  if (status.failed == 0) return failures_of({}, 0, *count);
  const ResultsDemand demand{
      .cursor = *cursor, .count = kMaxRows, .max_bytes = kMaxBytes, .only_others = true};
  if (const auto page = results_in_memory(record, demand)) return failures_of(*page, status.rows, *count);
  const auto later = [this, held = record.shared(), demand, rows = status.rows,
                      most = *count](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    state_.batches().reads().read_rows(
        held, demand, answer.waiting(), [answer, rows, most](const StoreReads::ReadRows& read) {
          answer(read.page ? failures_of(*read.page, rows, most) : json_error("STORE " + read.page.error()));
        });
  };
  return {.later = later};
}

}  // namespace locksley::daemon
