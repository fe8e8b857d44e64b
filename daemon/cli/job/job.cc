// job, running: the commands that show single jobs.

#include <string>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/job/bytes_text.h"
#include "daemon/cli/text/failure_text.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {

using client::JobInfo;

namespace {

constexpr std::size_t kShownBytes = 1024;
// How much of an error is shown: its end, which says what is wrong. A guess: a traceback of the
// package for Python has 6,000 characters at most.
constexpr std::size_t kShownErrorBytes = 8192;

std::string job_text(const std::string& id, const JobInfo& job) {
  Table table({{"job"}, {std::to_string(job.index) + " of " + id}});
  table.add({"status", job.status});
  if (job.exit_status) table.add({"exit status", std::to_string(*job.exit_status)});
  if (job.attempt > 0) table.add({"attempt", std::to_string(job.attempt)});
  if (!job.worker.empty()) table.add({"worker", job.worker});
  if (job.started_at > 0) table.add({"started", local_time(job.started_at)});
  if (job.finished_at > 0) table.add({"finished", local_time(job.finished_at)});
  if (job.duration_us > 0) {
    table.add({"took", job.duration_us < 1000
                           ? with_commas(job.duration_us) + " us"
                           : short_duration(std::chrono::milliseconds(job.duration_us / 1000))});
  }
  if (job.progress) table.add({"progress", std::to_string(*job.progress) + "%"});
  if (!job.note.empty()) table.add({"note", job.note});
  if (job.log_bytes > 0) {
    table.add({"log", with_commas(job.log_bytes) + (job.log_bytes == 1 ? " byte" : " bytes") +
                          ": locksley log " + id + " " + std::to_string(job.index)});
  }
  std::string text = table.text();
  const auto part = [&text](std::string_view title, std::string_view bytes, std::size_t most, Shown shown) {
    text +=
        std::string(title) + (bytes.size() == 1 ? ", 1 byte" : ", " + with_commas(bytes.size()) + " bytes");
    text += (bytes.empty() ? "\n" : ":\n") + bytes_text(bytes, most, shown);
  };
  if (job.payload) {
    part("payload", *job.payload, kShownBytes, Shown::kBeginning);
  } else {
    text += "payload: no longer kept\n";
  }
  if (!job.is_over()) return text;
  if (job.status == "ok") {
    part("output", job.output, kShownBytes, Shown::kBeginning);
  } else if (const auto failure = failure_text(job.output)) {
    part("error", failure->message, kShownErrorBytes, Shown::kEnd);
    part("traceback", failure->traceback, kShownErrorBytes, Shown::kEnd);
  } else {
    part("error", job.output, kShownErrorBytes, Shown::kEnd);
  }
  return text;
}

int print_part(Context& context, const JobArguments& arguments, const JobInfo& job) {
  if (arguments.part == JobArguments::Part::kPayload && !job.payload) {
    return context.fail({client::ClientError::Kind::kRefused, "NOPAYLOAD",
                         "the payload of job " + std::to_string(arguments.index) + " of batch " +
                             arguments.id + " is no longer kept, because the job cannot be tried again"});
  }
  const std::string& bytes = arguments.part == JobArguments::Part::kPayload ? *job.payload : job.output;
  return print(bytes);
}

std::string running_text(const std::vector<client::RunningJob>& jobs) {
  using Align = Table::Align;
  Table table({{"BATCH"},
               {"JOB", Align::kRight},
               {"ATTEMPT", Align::kRight},
               {"RUNS FOR", Align::kRight},
               {"WORKER"},
               {"PROGRESS", Align::kRight},
               {"NOTE"}});
  for (const client::RunningJob& job : jobs) {
    table.add({job.id, std::to_string(job.index), std::to_string(job.attempt),
               short_duration(std::chrono::milliseconds(job.since_ms)), job.worker,
               job.progress ? std::to_string(*job.progress) + "%" : "-", job.note});
  }
  return table.text();
}

std::string running_json(const std::vector<client::RunningJob>& jobs) {
  std::string rows;
  for (const client::RunningJob& job : jobs) {
    const JsonValue progress = job.progress ? JsonValue(*job.progress) : JsonValue(nullptr);
    const JsonValue note = job.note.empty() ? JsonValue(nullptr) : JsonValue(job.note);
    rows += (rows.empty() ? "" : ",") + json_object({{"id", job.id},
                                                     {"index", job.index},
                                                     {"attempt", job.attempt},
                                                     {"since_ms", job.since_ms},
                                                     {"worker", job.worker},
                                                     {"progress", progress},
                                                     {"note", note}});
  }
  return "[" + rows + "]\n";
}

}  // namespace

int run_job(Context& context, const JobArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  const auto reply = client->call({"JOB", arguments.id, std::to_string(arguments.index)});
  if (!reply) return context.fail(reply.error());
  const auto job = client::to_job(*reply);
  if (!job) return context.fail(job.error());
  if (arguments.part != JobArguments::Part::kAll) return print_part(context, arguments, *job);
  const std::string text = context.json() ? json_of_job(*reply) + "\n" : job_text(arguments.id, *job);
  return print(text);
}

int run_running(Context& context, const RunningArguments& arguments) {
  auto client = context.connect();
  if (!client) return context.fail(client.error());
  const auto jobs = client->running(arguments.id);
  if (!jobs) return context.fail(jobs.error());
  return print(context.json() ? running_json(*jobs) : running_text(*jobs));
}

}  // namespace locksley::cli
