// WorkerRunner: how it takes a worker's answers, and a worker's words about its running jobs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "config/units.h"
#include "daemon/base/time.h"
#include "daemon/process/runners/worker_limits.h"
#include "daemon/process/runners/worker_runner.h"
#include "proto/command_writer.h"

namespace locksley::daemon {
namespace {

// A worker's word about a running job: [progress, n] or [note, text].
struct Word {
  bool is_progress = false;
  // With version 2, the word may name the job in a third element.
  std::optional<std::uint64_t> job;
};

std::optional<Word> word_of(const proto::Reply& reply, bool is_version_2) {
  const auto& parts = reply.elements;
  const bool names_job = is_version_2 && parts.size() == 3;
  if (reply.type != proto::Reply::Type::kArray || !(names_job || parts.size() == 2)) return std::nullopt;
  if (!parts[0].is_string()) return std::nullopt;
  Word word{.is_progress = parts[0].text == "progress", .job = std::nullopt};
  const proto::Reply& value = parts[1];
  const bool is_progress =
      word.is_progress && value.is_integer() && value.integer >= 0 && value.integer <= 100;
  const bool is_note =
      parts[0].text == "note" && value.is_string() && value.text.size() <= JobNotes::kMostText;
  if (!is_progress && !is_note) return std::nullopt;
  if (names_job) {
    const auto index = parts[2].to_integer();
    if (!index || *index < 0) return std::nullopt;
    word.job = static_cast<std::uint64_t>(*index);
  }
  return word;
}

}  // namespace

bool WorkerRunner::take_answers(std::string_view bytes) {
  // After a time limit or a cancellation, the job's end is settled; while the daemon ends, it is
  // not. With version 1, an answer says that the process goes on to the next job that it has read.
  const bool is_settled = verdict_ != Verdict::kNone && verdict_ != Verdict::kHandedBack;
  if (is_settled && (is_version_2() || !has_read_ahead_)) return true;
  const std::span<std::byte> space = answers_->prepare(bytes.size());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  answers_->commit(bytes.size());
  for (const std::uint64_t before = answered_;;) {
    proto::Reply reply;
    switch (answers_->next(reply)) {
      case proto::ReadStatus::kComplete:
        if (is_settled) {
          if (reply.type == proto::Reply::Type::kArray) break;  // a word
          lane_.loop().keeper().signal(process_, SIGKILL);
          return false;
        }
        if (!take_answer(reply)) return false;
        break;
      case proto::ReadStatus::kError:
        refuse_answer(fmt::format(
            "wrote what is no answer ({}): an answer is a RESP2 bulk string of at most max_output ({}) or an "
            "error, and only answers may go to standard output",
            answers_->error_message(), config::to_string(program_->settings().max_output)));
        return false;
      case proto::ReadStatus::kNeedMore:
        answers_taken(answered_ != before);
        return true;
    }
  }
}

void WorkerRunner::answers_taken(bool has_answered) {
  if (process_ == 0 || !has_turn()) return;  // process_ended() does the rest
  if (verdict_ == Verdict::kNone) return turn_->running_jobs() == 0 ? turn_ended() : turn_->publish();
  // The daemon ends. The process has finished its job, and must not begin another from its own
  // buffer.
  if (has_answered) lane_.loop().keeper().signal(process_, SIGKILL);
}

bool WorkerRunner::take_answer(const proto::Reply& reply) {
  if (is_late_word(reply)) return true;
  if (!has_turn() || turn_->running_jobs() == 0) {
    refuse_answer("answered though it was not asked");
    return false;
  }
  if (is_version_2()) {
    if (reply.type == proto::Reply::Type::kArray) return take_array(reply);
    refuse_answer("answered with something else than an array: [job, status, output]");
    return false;
  }
  if (reply.type == proto::Reply::Type::kArray) return take_word(reply);
  if (!reply.is_string() && !reply.is_error()) {
    refuse_answer("answered with something else than a bulk string or an error");
    return false;
  }
  const JobStatus status = reply.is_error() ? JobStatus::kError : JobStatus::kOk;
  if (!counts(status)) return false;
  turn_->end_job(status, reply.text);
  note_answer();
  return true;
}

bool WorkerRunner::counts(JobStatus status) {
  if (verdict_ != Verdict::kHandedBack || status == JobStatus::kOk) return true;
  // Read no further: with version 1, the next answer would be taken for that of this job.
  lane_.loop().keeper().signal(process_, SIGKILL);
  return false;
}

void WorkerRunner::note_answer() {
  failures_ = 0;
  is_starting_ = false;
  turn_->set_starting(false);
  oldest_since_ = steady_now();
  if (answered_++ == 0) {
    stays_until_ = oldest_since_ + stay_after(oldest_since_ - began_);
    handler_->worker_works();
  }
  error_tail_.take();
}

bool WorkerRunner::take_array(const proto::Reply& reply) {
  constexpr std::array kStatuses = {JobStatus::kOk, JobStatus::kError, JobStatus::kTimeout,
                                    JobStatus::kCancelled};
  const auto& words = reply.elements;
  const auto index = words.size() == 3 ? words[0].to_integer() : std::nullopt;
  if (!index) return take_word(reply);
  const auto status =
      std::ranges::find_if(kStatuses, [&](JobStatus one) { return words[1].text == to_string(one); });
  if (*index < 0 || status == kStatuses.end() || !words[2].is_string()) {
    refuse_answer("wrote an answer that is not [job, status, output] with ok, error, timeout or cancelled");
    return false;
  }
  if (turn_->running(static_cast<std::uint64_t>(*index)) == nullptr) {
    refuse_answer(fmt::format("answered job {}, which it was not given", *index));
    return false;
  }
  if (!counts(*status)) return false;
  // A job that gives up without being asked has failed.
  const bool was_asked = turn_->batch().is_aborting();
  turn_->end_job(static_cast<std::uint64_t>(*index),
                 *status == JobStatus::kCancelled && !was_asked ? JobStatus::kError : *status, words[2].text);
  note_answer();
  return true;
}

void WorkerRunner::send_stops() {
  proto::CommandWriter writer(input_.buffer());
  for (const std::uint64_t index : turn_->running_indexes()) {
    writer.begin(3);
    writer.argument("stop");
    writer.argument(index);
    writer.argument(std::string_view(turn_->batch().id()));
  }
  input_.write();
}

bool WorkerRunner::is_late_word(const proto::Reply& reply) {
  if (!is_version_2()) return false;
  const auto word = word_of(reply, /*is_version_2=*/true);
  return word && word->job && (!has_turn() || turn_->running(*word->job) == nullptr);
}

bool WorkerRunner::take_word(const proto::Reply& reply) {
  const auto& words = reply.elements;
  if (const auto word = word_of(reply, is_version_2())) {
    ShownJob& job = word->job ? *turn_->running(*word->job) : turn_->running();
    if (word->is_progress) {
      job.set_progress(static_cast<std::uint32_t>(words[1].integer));
    } else {
      job.set_note(words[1].text);
    }
    return true;
  }
  const bool is_word = !words.empty() && (words[0].text == "progress" || words[0].text == "note");
  if (!is_word) {
    refuse_answer("answered with something else than a bulk string or an error");
    return false;
  }
  refuse_answer(
      fmt::format("wrote an array that is neither progress (0 to 100) nor a note (at most {} bytes)",
                  JobNotes::kMostText));
  return false;
}

}  // namespace locksley::daemon
