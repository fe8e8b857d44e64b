// Length: the whole life of one process, which is read from top to bottom.
#include "daemon/process/worker_slot.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/logger.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include "config/units.h"
#include "daemon/log_line.h"
#include "daemon/process/job_end.h"
#include "proto/command_writer.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

// Of one turn, at most: what is sent cannot be given to another worker.
constexpr std::uint64_t kMostJobs = 256;
constexpr std::size_t kMostBytes = 256U << 10;

// A process that dies before it has answered anything is not started again at once, and later each time.
constexpr Nanoseconds kFirstPause = std::chrono::milliseconds(100);
constexpr Nanoseconds kLongestPause = std::chrono::seconds(5);

// A worker that is in the middle of a short job when the batch is cancelled need not be killed for it.
constexpr Nanoseconds kPatienceAtCancel = std::chrono::milliseconds(100);

// From the end of its output, or of its input while there are jobs for it, to the end of a process.
constexpr Nanoseconds kPatienceAtSilence = std::chrono::milliseconds(500);

}  // namespace

WorkerSlot::WorkerSlot(ProcessLane& lane)
    : lane_(lane),
      slot_(lane.lane()),
      input_(lane.loop().executor()),
      answer_reader_(lane.loop().executor()),
      error_reader_(lane.loop().executor()),
      error_log_(lane.loop().log(), lane.name()),
      timeout_(lane.loop().executor()),
      patience_(lane.loop().executor()),
      silence_(lane.loop().executor()),
      pause_timer_(lane.loop().executor()),
      terminator_(lane.loop().executor(), lane.loop().keeper()) {}

WorkerSlot::~WorkerSlot() { abandon(); }

void WorkerSlot::abandon() {
  if (process_ != 0) lane_.loop().keeper().forget(std::exchange(process_, 0));
  if (slot_.has_turn()) slot_.end_turn();
}

std::uint64_t WorkerSlot::begin(std::uint64_t most) {
  program_ = lane_.program();
  const std::uint64_t max_jobs = program_->settings().max_jobs;
  const std::uint64_t answered = process_ == 0 ? 0 : answered_;
  if (max_jobs != 0) most = std::min(most, max_jobs - std::min(max_jobs - 1, answered));
  if (!slot_.begin_turn(std::min(most, kMostJobs), kMostBytes)) return 0;
  std::uint64_t started = 0;
  verdict_ = Verdict::none;
  for (auto job = slot_.start_job(); job; job = slot_.start_job(), ++started) send(*job);
  if (started == 0) {
    slot_.end_turn();
    return 0;
  }
  if (process_ == 0) {
    if (const auto begun = start_process(); !begun) {
      slot_.end_job(JobStatus::error, begun.error());
      slot_.end_turn();
      to_write_.clear();
      pause();
      return started;
    }
  }
  oldest_since_ = steady_now();
  arm_timeout();
  write();
  return started;
}

std::expected<void, std::string> WorkerSlot::start_process() {
  auto input = make_input_pipe();
  if (!input) return std::unexpected(input.error());
  auto output = make_output_pipe();
  if (!output) return std::unexpected(output.error());
  auto errors = make_output_pipe();
  if (!errors) return std::unexpected(errors.error());
  const std::array<int, 3> descriptors{input->read.get(), output->write.get(), errors->write.get()};
  process_ = lane_.loop().keeper().start(program_->request(), descriptors,
                                         {.on_start = [this](pid_t pid) { pid_ = pid; },
                                          .on_end = [this](const ProcessEnd& end) { ended(end); }});
  pid_ = 0;
  answered_ = 0;
  is_given_up_ = false;
  why_.clear();
  error_tail_.take();
  input_.assign(input->write.release());
  watch_input();
  answers_ = std::make_unique<proto::ReplyReader>(proto::ReplyLimits{
      .max_bulk_bytes = program_->settings().max_output.count, .max_elements = 1024, .max_depth = 2});
  answer_reader_.begin(
      std::move(output->read), [this](std::string_view bytes) { return take_answers(bytes); },
      [this] { give_up("closed its standard output"); });
  error_reader_.begin(std::move(errors->read), [this](std::string_view bytes) {
    error_tail_.add(bytes);
    error_log_.add(bytes, slot_.has_turn() ? &slot_.batch() : nullptr);
    return true;
  });
  return {};
}

void WorkerSlot::send(const SlotJob& job) {
  proto::CommandWriter writer(to_write_);
  writer.begin(3);
  writer.argument(job.payload);
  writer.argument(job.index);
  writer.argument(std::string_view(slot_.batch().id()));
}

// Asio may call for a descriptor that had this one's place before: so it is looked at.
void WorkerSlot::watch_input() {
  input_.async_wait(ProcessDescriptor::wait_error, [this, process = process_](const asio::error_code& error) {
    if (error || process != process_ || !input_.is_open()) return;
    pollfd look{input_.native_handle(), 0, 0};
    if (::poll(&look, 1, 0) == 1) return input_was_closed();
    watch_input();
  });
}

// One that has read all is about to answer and to end, as it may. What the others have not read is lost.
void WorkerSlot::input_was_closed() {
  int unread = 0;
  if (to_write_.empty() && ::ioctl(input_.native_handle(), FIONREAD, &unread) == 0 && unread == 0) return;
  to_write_.clear();
  give_up("closed its standard input, with jobs to come");
}

void WorkerSlot::write() {
  if (is_writing_) return;
  while (!to_write_.empty() && input_.is_open()) {
    std::array<std::string_view, 32> views;
    const std::size_t used = to_write_.gather(views);
    std::array<iovec, 32> parts;
    for (std::size_t i = 0; i < used; ++i) parts[i] = {const_cast<char*>(views[i].data()), views[i].size()};
    const ssize_t wrote = ::writev(input_.native_handle(), parts.data(), static_cast<int>(used));
    if (wrote > 0) {
      to_write_.consume(static_cast<std::size_t>(wrote));
    } else if (errno == EAGAIN) {
      is_writing_ = true;
      input_.async_wait(ProcessDescriptor::wait_write, [this](const asio::error_code& error) {
        if (error) return;
        is_writing_ = false;
        write();
      });
      return;
    } else if (errno != EINTR) {
      input_was_closed();
    }
  }
}

bool WorkerSlot::take_answers(std::string_view bytes) {
  // Of one that was told to stop nothing counts any more.
  if (verdict_ != Verdict::none) return true;
  const std::span<std::byte> space = answers_->prepare(bytes.size());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  answers_->commit(bytes.size());
  for (;;) {
    proto::Reply reply;
    switch (answers_->next(reply)) {
      case proto::ReadStatus::kComplete:
        if (!take_answer(reply)) return false;
        break;
      case proto::ReadStatus::kError:
        refuse_answer(fmt::format(
            "wrote what is no answer ({}): an answer is a RESP2 bulk string of at most max_output ({}) or an "
            "error, and only answers may go to standard output",
            answers_->error_message(), config::to_string(program_->settings().max_output)));
        return false;
      case proto::ReadStatus::kNeedMore:
        if (process_ == 0) return true;  // ended() does the rest
        if (slot_.has_turn() && slot_.running_jobs() == 0) {
          turn_is_over();
        } else if (slot_.has_turn()) {
          slot_.publish();
        }
        return true;
    }
  }
}

bool WorkerSlot::take_answer(const proto::Reply& reply) {
  if (!slot_.has_turn() || slot_.running_jobs() == 0) {
    refuse_answer("answered though it was not asked");
    return false;
  }
  if (reply.is_string()) {
    slot_.end_job(JobStatus::ok, reply.text);
  } else if (reply.is_error()) {
    slot_.end_job(JobStatus::error, reply.text);
  } else {
    refuse_answer("answered with something else than a bulk string or an error");
    return false;
  }
  ++answered_;
  failures_ = 0;
  oldest_since_ = steady_now();
  error_tail_.take();
  return true;
}

void WorkerSlot::turn_is_over() {
  slot_.end_turn();
  if (!is_current()) return retire();
  const std::uint64_t max_jobs = program_->settings().max_jobs;
  if ((max_jobs != 0 && answered_ >= max_jobs) || has_grown()) return retire();
  lane_.slot_is_free(*this);
}

bool WorkerSlot::is_current() {
  const std::shared_ptr<const Program>& current = lane_.program();
  if (current == program_) return true;
  if (current == nullptr || !current->starts_the_same_process_as(*program_)) return false;
  program_ = current;
  return true;
}

void WorkerSlot::renew() {
  failures_ = 0;
  if (!std::exchange(is_pausing_, false)) return;
  pause_timer_.cancel();
  lane_.slot_is_free(*this);
}

bool WorkerSlot::has_grown() const {
  const std::uint64_t most = program_->settings().max_memory.count;
  if (most == 0 || pid_ == 0) return false;
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  file >> pages >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) > most;
}

void WorkerSlot::retire() {
  is_leaving_ = true;
  asio::error_code ignored;
  input_.close(ignored);
  // It has the grace time to end by itself, and then SIGKILL.
  timeout_.expires_after(std::max<Nanoseconds>(program_->settings().grace, std::chrono::milliseconds(100)));
  timeout_.async_wait([this, process = process_](const asio::error_code& error) {
    if (!error) lane_.loop().keeper().signal(process, SIGKILL);
  });
}

void WorkerSlot::arm_timeout() {
  const Nanoseconds limit = Nanoseconds(slot_.batch().options().timeout);
  if (limit.count() == 0) return;
  timeout_.expires_at(std::chrono::steady_clock::time_point(oldest_since_ + limit));
  timeout_.async_wait([this](const asio::error_code& error) {
    if (!error) check_timeout();
  });
}

void WorkerSlot::check_timeout() {
  if (!slot_.has_turn() || slot_.running_jobs() == 0) return;
  const Nanoseconds limit = Nanoseconds(slot_.batch().options().timeout);
  if (limit.count() == 0) return;
  if (steady_now() < oldest_since_ + limit) return arm_timeout();  // it is at another job by now
  condemn(Verdict::timeout);
}

void WorkerSlot::look() {
  if (!slot_.has_turn() || verdict_ != Verdict::none || !slot_.batch().is_stopping()) return;
  if (std::exchange(is_patient_, true)) return;
  patience_.expires_after(kPatienceAtCancel);
  patience_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    is_patient_ = false;
    if (slot_.has_turn() && slot_.batch().is_stopping()) condemn(Verdict::cancelled);
  });
}

void WorkerSlot::stop() {
  pause_timer_.cancel();
  if (process_ == 0) return;
  if (slot_.has_turn()) {
    condemn(Verdict::handed_back);
  } else if (!is_leaving_) {
    retire();
    lane_.loop().keeper().signal(process_, SIGTERM);
  }
}

void WorkerSlot::condemn(Verdict verdict) {
  if (verdict_ != Verdict::none || process_ == 0) return;
  verdict_ = verdict;
  is_leaving_ = true;
  terminator_.begin(process_, program_->settings().grace);
}

void WorkerSlot::log_end(const char* what, std::string_view why) {
  RateGate& gate = lane_.end_lines();
  if (!gate.open(std::chrono::steady_clock::now())) return;
  LogLine line(what);
  slot_.has_turn() ? line.about(slot_.batch()) : line.with("handler", lane_.name());
  line.with("pid", pid_).with("jobs_answered", answered_).with("reason", why);
  line.with("unlogged", gate.held_back()).write(*lane_.loop().log(), spdlog::level::warn);
}

void WorkerSlot::refuse_answer(std::string why) {
  log_end("worker is ended", "it " + why);
  why_ = "its worker " + std::move(why);
  is_leaving_ = true;
  if (verdict_ != Verdict::none) return;
  verdict_ = Verdict::bad_answer;
  lane_.loop().keeper().signal(process_, SIGKILL);
}

void WorkerSlot::give_up(std::string why) {
  if (verdict_ != Verdict::none || process_ == 0 || std::exchange(is_given_up_, true)) return;
  silence_.expires_after(kPatienceAtSilence);
  silence_.async_wait([this, process = process_, why = std::move(why)](const asio::error_code& error) {
    if (error || process != process_) return;
    why_ = why;
    lane_.loop().keeper().signal(process, SIGKILL);
  });
}

void WorkerSlot::ended(const ProcessEnd& end) {
  process_ = 0;
  timeout_.cancel();
  patience_.cancel();
  is_patient_ = false;
  silence_.cancel();
  terminator_.end();
  // What it had answered before it died counts.
  answer_reader_.finish();
  error_reader_.finish();
  error_log_.end(slot_.has_turn() ? &slot_.batch() : nullptr);
  asio::error_code ignored;
  input_.close(ignored);
  is_writing_ = false;
  to_write_.clear();
  const bool was_asked_to = is_leaving_;
  is_leaving_ = false;
  if (!was_asked_to) {
    log_end("worker has ended by itself", !end.has_started ? end.why
                                          : end.has_exited ? fmt::format("exit status {}", end.status)
                                                           : killed_by(end.status));
  }
  if (slot_.has_turn()) {
    if (slot_.running_jobs() != 0 && verdict_ != Verdict::handed_back) end_first_job(end);
    slot_.end_turn();
  }
  if (answered_ == 0 && verdict_ != Verdict::timeout && verdict_ != Verdict::cancelled) {
    pause();
  } else {
    lane_.slot_is_free(*this);
  }
}

void WorkerSlot::end_first_job(const ProcessEnd& end) {
  const std::string errors = error_tail_.take();
  switch (verdict_) {
    case Verdict::timeout:
      return slot_.end_job(JobStatus::timeout,
                           timed_out(Nanoseconds(slot_.batch().options().timeout), errors));
    case Verdict::cancelled:
      return slot_.end_job(JobStatus::cancelled, "cancelled");
    case Verdict::bad_answer:
      return slot_.end_job(JobStatus::error, why_);
    case Verdict::none:
    case Verdict::handed_back:
      break;
  }
  if (!end.has_started) return slot_.end_job(JobStatus::error, end.why);
  std::string what = end.has_exited ? fmt::format("the worker ended with exit status {}", end.status)
                                    : "the worker was " + killed_by(end.status);
  // Given up, unless it had ended in its own way just before.
  if (!why_.empty() && !end.has_exited && end.status == SIGKILL) what = "the worker " + why_;
  slot_.end_job(JobStatus::crashed, with_errors(std::move(what), errors));
}

void WorkerSlot::pause() {
  is_pausing_ = true;
  const Nanoseconds pause =
      std::min(kLongestPause, kFirstPause * (std::int64_t{1} << std::min(failures_, 10U)));
  ++failures_;
  pause_timer_.expires_after(pause);
  pause_timer_.async_wait([this](const asio::error_code& error) {
    // It may have fired before it was cancelled.
    if (error || !is_pausing_) return;
    is_pausing_ = false;
    lane_.slot_is_free(*this);
  });
}

}  // namespace locksley::daemon
