// Single jobs, what they have written, and the jobs that run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/batch/job_facts.h"
#include "daemon/http/api/api.h"
#include "daemon/http/api/api_json.h"
#include "daemon/server/state/job_view.h"
#include "daemon/server/state/running_view.h"
#include "proto/number.h"

namespace locksley::daemon {
namespace {

constexpr std::size_t kShownBytes = 1024;  // of an output, and of a payload
constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max();

class JobJson {
 public:
  explicit JobJson(Json& object) : object_(object) {}

  template <class Value>
  void operator()(const char* key, const Value& value) const {
    if constexpr (std::is_same_v<Value, std::optional<std::string_view>>) {
      // put_bytes() puts the beginning.
    } else if constexpr (requires { value.has_value(); }) {
      object_[key] = value ? Json(*value) : Json();
    } else {
      object_[key] = value;
    }
  }

 private:
  Json& object_;
};

// Text has whole characters, and no control characters but those of lines.
bool is_text(const std::string& bytes) {
  const bool has_controls = std::ranges::any_of(bytes, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0x7F || (byte < 0x20 && c != '\n' && c != '\r' && c != '\t');
  });
  if (has_controls) return false;
  // Invalid UTF-8 is left out by the one, and replaced by the other.
  const Json json(bytes);
  return json.dump(-1, ' ', false, Json::error_handler_t::ignore).size() ==
         json.dump(-1, ' ', false, Json::error_handler_t::replace).size();
}

// The first bytes, without a part of a character at their end.
std::string first_bytes(std::string_view bytes) {
  std::size_t end = std::min(bytes.size(), kShownBytes);
  if (end == bytes.size()) return std::string(bytes);
  constexpr int kLongestCharacter = 4;
  for (int i = 0; i < kLongestCharacter && end > 0; ++i) {
    if ((static_cast<unsigned char>(bytes[end]) & 0xC0U) != 0x80U) return std::string(bytes.substr(0, end));
    --end;
  }
  return std::string(bytes.substr(0, kShownBytes));
}

// What clients and programs wrote may be any bytes, and many: KEY has the first of them as text,
// KEY_hex the same in hexadecimal if they are no text, KEY_bytes how many there are.
void put_bytes(Json& object, const std::string& key, std::optional<std::string_view> bytes) {
  const std::string shown = first_bytes(bytes.value_or(std::string_view()));
  Json hex;
  if (!is_text(shown)) {
    std::string digits;
    for (const char c : shown) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
    hex = std::move(digits);
  }
  object[key] = bytes ? Json(shown) : Json();
  object[key + "_hex"] = std::move(hex);
  object[key + "_bytes"] = bytes ? Json(bytes->size()) : Json();
}

HttpReply job_reply(const JobLookup& look) {
  kIoThread.assert_held();
  const auto job = look.end();
  if (!job) return json_error(job.error());
  Json object = Json::object();
  visit_members(*job, JobJson(object));
  put_bytes(object, "output", job->output);
  put_bytes(object, "payload", job->payload);
  return json_reply(object);
}

HttpReply log_reply(std::uint64_t next, std::string_view bytes, bool has_ended) {
  return json_reply({{"next", next}, {"text", std::string(bytes)}, {"ended", has_ended}});
}

HttpReply kept_log_reply(const FoundJob& found, std::uint64_t from) {
  if (!found.error.empty()) return json_error("STORE " + found.error);
  const auto facts = found.row ? decode_facts(found.row->facts) : std::nullopt;
  if (!facts) return log_reply(0, {}, found.row.has_value());
  const std::uint64_t begin = facts->log_end - facts->log.size();
  if (from > facts->log_end) from = 0;  // of an earlier attempt
  return log_reply(facts->log_end, facts->log.substr(std::max(from, begin) - begin), true);
}

}  // namespace

HttpReply Api::job(const HttpRequest& request, const std::string& id, std::string_view what) {
  const auto user = admitted(request, proto::CommandGroup::kRead, "job");
  if (!user) return json_error(user.error());
  constexpr std::string_view kLog = "/log";
  const std::string part(what);
  const bool wants_log = what.ends_with(kLog);
  if (wants_log) what.remove_suffix(kLog.size());
  const auto index = proto::parse_uint64(what);
  if (!index) return json_error("ERR the index of a job needs an integer");
  static constexpr std::array<std::string_view, 2> kParameters = {"tenant", "from"};
  const auto query = Query::parse(request.query, std::span(kParameters).first(wants_log ? 2 : 1));
  if (!query) return json_error("ERR " + query.error());
  const auto from = query->number("from", {0, kMaxOffset, 0});
  if (!from) return json_error("ERR " + from.error());
  const auto again = [this, id, part](const HttpRequest& kept) {
    kIoThread.assert_held();
    return job(kept, id, part);
  };
  if (auto reply = after_load(request, **user, id, *query, again)) return *std::move(reply);
  const auto found = find(**user, id, *query);
  if (!found) return json_error(found.error());
  const std::shared_ptr<BatchRecord> record = (*found)->shared();
  if (*index >= record->status().jobs) return json_error("ERR the batch has no such job");
  if (!wants_log) {
    const auto later = [this, record, at = *index](const HttpReply::Answer& answer) {
      kIoThread.assert_held();
      // The search stores its finding here, and calls this function once it is done.
      const auto look = std::make_shared<std::optional<JobLookup>>();
      auto begun = JobLookup::begin(state_, record, at, answer.waiting(),
                                    [look, answer](const FoundJob&) { answer(job_reply(**look)); });
      if (!begun) return answer(json_error(begun.error()));
      *look = *std::move(begun);
    };
    return {.later = later};
  }
  const ShownJobs& running = record->lane->running();
  auto log = record->is_over() ? std::nullopt : running.read_log(*record, *index, *from);
  if (log && log->end < *from) log = running.read_log(*record, *index, 0);
  if (log) return log_reply(log->end, log->bytes, false);
  const auto later = [this, record, at = *index, after = *from](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    state_.batches().reads().find_facts(record, at, answer.waiting(), [answer, after](const FoundJob& job) {
      answer(kept_log_reply(job, after));
    });
  };
  return {.later = later};
}

HttpReply Api::running(const HttpRequest& request) {
  const auto user = admitted(request, proto::CommandGroup::kRead, "running");
  if (!user) return json_error(user.error());
  static constexpr std::array<std::string_view, 3> kParameters = {"id", "tenant", "count"};
  const auto query = Query::parse(request.query, kParameters);
  if (!query) return json_error("ERR " + query.error());
  const auto count = query->number("count", {1, 1000, 100});
  if (!count) return json_error("ERR " + count.error());
  std::shared_ptr<BatchRecord> record;
  if (const std::string* const id = query->find("id")) {
    const auto again = [this](const HttpRequest& kept) {
      kIoThread.assert_held();
      return running(kept);
    };
    if (auto reply = after_load(request, **user, *id, *query, again)) return *std::move(reply);
    const auto found = find(**user, *id, *query);
    if (!found) return json_error(found.error());
    record = (*found)->shared();
  }
  const auto later = [this, record, user = *user, most = *count](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    const auto list = std::make_shared<RunningList>(state_, *user, record.get(), most);
    auto go_on = [list, record, answer](Instant until) {
      kIoThread.assert_held();
      while (list->step()) {
        if (now() >= until) return false;
      }
      Json jobs = Json::array();
      const Nanoseconds at = steady_now();
      for (const RunningList::Row& row : list->take()) {
        const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(at - row.since);
        jobs.push_back({{"id", row.record->id()},
                        {"index", row.index},
                        {"attempt", row.attempt},
                        {"since_ms", ran.count()},
                        {"worker", row.worker},
                        {"progress", row.progress ? Json(*row.progress) : Json()},
                        {"note", row.note.empty() ? Json() : Json(row.note)},
                        {"handler", row.record->handler().name()},
                        {"tenant", row.record->options().tenant}});
      }
      answer(json_reply({{"jobs", std::move(jobs)}}));
      return true;
    };
    state_.slices().add(std::move(go_on), line_of_tenant(user->tenant().number));
  };
  return {.later = later};
}

}  // namespace locksley::daemon
