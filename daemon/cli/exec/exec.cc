#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/context/progress.h"
#include "daemon/cli/exec/exec_plan.h"
#include "daemon/cli/exec/exec_results.h"
#include "daemon/cli/exec/joblog.h"
#include "daemon/cli/feed/feed.h"
#include "daemon/cli/names/passing_names.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/text/output.h"
#include "daemon/cli/text/table.h"
#include "proto/exec_payload.h"

namespace locksley::cli {

using client::Client;
using client::ClientError;
using client::Expected;
using Kind = client::ClientError::Kind;

namespace {

// How long one RESULTS blocks. The progress on the screen is never older than this.
constexpr std::chrono::milliseconds kExecSlice{500};
// How often the main thread looks at the feed while it waits for it.
constexpr std::chrono::milliseconds kExecLook{20};
// For how long results that the daemon cannot read from its disk are requested again.
constexpr std::chrono::milliseconds kExecStorePatience = client::BatchStream::kRestartPatience;
// The most rows that are held. Guess: some results ahead of a slow reader.
constexpr std::uint64_t kMostHeld = 10'000;

// One `locksley exec`: the steps in the order in which they happen.
class ExecRun {
 public:
  // Borrows all.
  ExecRun(Context& context, const ExecArguments& arguments, ExecPlan& plan)
      : context_(context),
        arguments_(arguments),
        plan_(plan),
        progress_(arguments.shows_progress ? WhenProgress::kAlways : WhenProgress::kNever, ""),
        output_(STDOUT_FILENO, context.signals().fd()),
        results_(plan, names_, joblog_, output_,
                 {.json = context.json(),
                  .keeps_order = arguments.keeps_order,
                  .tags = arguments.tags,
                  .files = arguments.results},
                 [this] { progress_.clear(); }) {}

  int run() {
    auto client = context_.connect(context_.signals().fd(), Context::kFeedPatience,
                                   [this](const ClientError& error) { say_it_waits(error); });
    if (!client) return fail(client.error());
    client_ = &*client;
    if (auto checked = check_handler(); !checked) return fail(checked.error());
    if (auto begun = plan_.begin(arguments_, joblog_, *client_); !begun) return fail(begun.error());
    if (plan_.goes_on()) say_it_goes_on();
    feed_.emplace(context_, plan_.submit(), [this](int stop_fd) { return plan_.payloads(names_, stop_fd); });
    while (!feed_->has_begun() && !feed_->is_over()) {
      wait_for_the_feed();
      if (const auto code = interruption()) return *code;
      if (is_ending_) break;
    }
    if (!feed_->has_begun()) {
      feed_->stop();
      if (signal_) return 128 + *signal_;
      const auto error =
          feed_->error().value_or(ClientError{Kind::kProtocol, "", "the batch was not submitted"});
      const int code = fail_as_feed(error);
      if (feed_->has_sent()) say_it_may_be_there(error, id());
      return code;
    }
    return read_results();
  }

 private:
  const std::string& id() const { return plan_.submit().batch.id; }

  int fail(const ClientError& error) {
    progress_.clear();
    const int code = context_.fail(error);
    return error.kind == Kind::kInterrupted ? code : daemon::kExitExecFailed;
  }

  void say_it_waits(const ClientError& error) {
    progress_.clear();
    std::fprintf(stderr, "locksley: %s; waiting for the daemon, for up to %lld s\n",
                 printable(error.message).c_str(), static_cast<long long>(Context::kFeedPatience.count()));
  }

  // Fails unless the daemon has the handler `exec`. Warns if --jobs exceeds the slots of its lane.
  Expected<void> check_handler() {
    const auto handlers = client_->handlers();
    if (!handlers) return std::unexpected(handlers.error());
    const auto found = std::ranges::find(*handlers, proto::kExecHandler, &client::HandlerInfo::name);
    if (found == handlers->end() || found->kind != proto::kExecHandler) {
      return client::client_error(
          Kind::kRefused, "this daemon runs no commands of its clients: its configuration needs exec: true");
    }
    if (arguments_.batch.slots.value_or(0) > found->concurrency) {
      std::fprintf(
          stderr,
          "locksley: at most %s commands run at once, the slots of lane %s; lanes.%s.slots of the daemon's "
          "configuration allows more\n",
          with_commas(found->concurrency).c_str(), found->lane.c_str(), found->lane.c_str());
    }
    return {};
  }

  void say_it_goes_on() const {
    std::fprintf(stderr, "locksley: going on with batch %s\n", id().c_str());
    if (plan_.queued_again() != 0) {
      std::fprintf(stderr, "locksley: jobs of it that had failed run again: %s\n",
                   with_commas(plan_.queued_again()).c_str());
    }
    if (plan_.failed_before() != 0) {
      std::fprintf(stderr,
                   "locksley: jobs that failed before it was begun are not in it: %s; the same command runs "
                   "them once it is over\n",
                   with_commas(plan_.failed_before()).c_str());
    }
  }

  void wait_for_the_feed() const {
    pollfd entries[] = {{.fd = feed_->settled_fd(), .events = POLLIN, .revents = 0},
                        {.fd = context_.signals().fd(), .events = POLLIN, .revents = 0}};
    ::poll(entries, 2, -1);
  }

  int read_results() {
    Client::ResultsPosition position;
    while (!position.at_end || results_.held() != 0) {
      Expected<void> read;
      if (!position.at_end && results_.held() < kMostHeld) {
        read = client_->results(id(), position, kMostHeld - results_.held(),
                                results_.held() == 0 ? kExecSlice : kExecLook,
                                [this](const client::ResultRow& row) { results_.add(row); });
      }
      std::size_t shown = 0;
      if (read) {
        const auto total = feed_->is_over() ? std::optional(feed_->jobs()) : std::nullopt;
        auto moved = results_.show(*client_, total);
        if (moved) shown = *moved;
        if (!moved) read = std::unexpected(std::move(moved.error()));
      }
      results_.flush();
      if (const auto code = after_page(read)) return *code;
      if (read && shown == 0 && results_.held() != 0) {
        if (is_ending_ || is_halting_) {
          results_.leave_out_unknown();
          continue;
        }
        if (feed_->is_over())
          return after_local_error("this input has no job " + std::to_string(results_.first_held()) +
                                   " of the batch");
        (void)client_->sleep(kExecLook);
      }
    }
    results_.finish();
    do {
      results_.flush();
      if (const auto code = output_failure()) return *code;
      if (const auto code = interruption()) return *code;
    } while (!output_.is_empty());
    while (!is_ending_ && !feed_->is_over() && !feed_->awaits_input()) {
      (void)client_->sleep(kExecLook);
      if (const auto code = interruption()) return *code;
    }
    if (has_feed_failed()) return after_failed_feed();
    feed_->stop();
    if (feed_->was_there() && !plan_.goes_on()) {
      progress_.clear();
      say_it_was_there(id());
    }
    return finish();
  }

  // Handles what may have happened meanwhile: a failure, a signal, --halt. Returns the exit status
  // if the run ends.
  std::optional<int> after_page(const Expected<void>& read) {
    if (const auto code = output_failure()) return code;
    progress_.update({.done = results_.ended() + results_.cancelled(),
                      .failed = results_.failed(),
                      .total = feed_->jobs(),
                      .is_open = !feed_->is_over()});
    if (has_feed_failed()) return after_failed_feed();
    if (const auto code = interruption()) return code;
    if (!read && !may_be_read_later(read.error())) return after_lost_daemon(read.error());
    if (read) store_fails_for_ = {};
    if (results_.halt_status()) halt();
    return std::nullopt;
  }

  std::optional<int> output_failure() {
    if (output_.error() == EPIPE) {
      progress_.clear();
      end_batch();
      return daemon::kExitBrokenPipe;
    }
    if (output_.error() != 0)
      return after_local_error("standard output: " + std::string(std::strerror(output_.error())));
    if (!results_.problem().empty()) return after_local_error(results_.problem());
    return std::nullopt;
  }

  // A batch that is being cancelled takes no more input, and --halt ends the input: neither is a
  // failure of the feed.
  bool has_feed_failed() {
    return feed_->is_over() && feed_->error() && !is_ending_ && !is_halting_ && !is_cancelled_elsewhere();
  }

  bool is_cancelled_elsewhere() {
    if (feed_->error()->code != "CLOSED") return false;
    const auto status = client_->status(id());
    return status && (status->state == "cancelled" || status->cancelled > 0);
  }

  bool may_be_read_later(const ClientError& error) {
    if (error.kind == Kind::kInterrupted) return true;  // interruption() takes the signal
    if (error.kind == Kind::kUnavailable) return !feed_->is_over();
    if (error.code != "STORE" || store_fails_for_ >= kExecStorePatience) return false;
    store_fails_for_ += kExecSlice;
    (void)client_->sleep(kExecSlice);
    return true;
  }

  // ---- An early end ----

  // The first signal cancels the batch; the results of its running jobs are still read. A second
  // signal ends this program.
  std::optional<int> interruption() {
    const auto signal = context_.signals().take();
    if (!signal) return std::nullopt;
    progress_.clear();
    if (signal_) return 128 + *signal;
    signal_ = signal;
    std::fprintf(stderr, "locksley: interrupted; the batch is cancelled, and its commands are told to end\n");
    end_batch();
    return std::nullopt;
  }

  // Ends the batch, because --halt is reached.
  void halt() {
    if (is_ending_) return;
    if (plan_.halt().when() == Halt::When::kNow) {
      progress_.clear();
      std::fprintf(stderr, "locksley: --halt: the batch is cancelled, and its commands are told to end\n");
      return end_batch();
    }
    if (!is_paused_) {
      progress_.clear();
      std::fprintf(stderr, "locksley: --halt: no more commands start\n");
      is_halting_ = true;
      feed_->stop();
      is_paused_ = client_->pause(id()).has_value();
    }
    const auto status = client_->status(id());
    if (status && (status->is_over() || (is_paused_ && status->running == 0))) end_batch();
  }

  void end_batch() {
    is_ending_ = true;
    feed_->stop();
    // On a connection of its own: a second signal interrupts the commands on the other connection,
    // and must not interrupt this CANCEL.
    auto client = context_.connect(-1, std::chrono::milliseconds(0));
    const auto jobs = client ? client->cancel(id()) : std::unexpected(client.error());
    if (jobs || jobs.error().code == "NOBATCH") return;
    progress_.clear();
    context_.fail(jobs.error());
    say_it_is_left();
  }

  // ---- The end ----

  void say_it_is_left() const {
    std::fprintf(stderr, "locksley: batch %s is left as it is; see `locksley status %s`; %s\n", id().c_str(),
                 id().c_str(),
                 joblog_.is_open() ? "the same command with --resume goes on with it"
                                   : ("`locksley results " + id() + "` has its outputs").c_str());
  }

  // `error`: why the daemon's results cannot be read, or it takes no input.
  void say_what_is_left(const ClientError& error) const {
    if (error.code != "NOBATCH") return say_it_is_left();
    std::fprintf(stderr,
                 "locksley: a client may have forgotten it, or the daemon that serves now has another store "
                 "(store.path of its configuration)\n");
  }

  int after_lost_daemon(const ClientError& error) {
    const int code = fail(error);
    say_what_is_left(error);
    return code;
  }

  int after_local_error(const std::string& what) {
    feed_->stop();
    const int code = fail({Kind::kLocal, "", what});
    say_it_is_left();
    return code;
  }

  int after_failed_feed() {
    const ClientError& error = *feed_->error();
    const int code = fail_as_feed(error);
    if (is_temporary(error) || error.code == "EXISTS" || error.code == "CLOSED" || error.code == "NOBATCH") {
      say_what_is_left(error);
    } else if (const auto jobs = client_->cancel(id())) {
      say_it_is_cancelled(id(), *jobs);
    } else {
      context_.fail(jobs.error());
      say_it_is_left();
    }
    return code;
  }

  // Names the job whose arguments are too long.
  int fail_as_feed(ClientError error) {
    if (const auto index = feed_->too_long()) {
      const ExecJob job = ExecJob::of(names_.take(*index).value_or(std::string()));
      error.message = "job " + std::to_string(job.number) + " (" + job.shown() + "): " + error.message;
    }
    return fail(error);
  }

  int finish() {
    progress_.finish({.done = results_.ended() + results_.cancelled(),
                      .failed = results_.failed(),
                      .total = feed_->jobs(),
                      .is_open = false});
    if (joblog_.is_open()) joblog_.remove_note();
    const bool is_all_ok = results_.failed() == 0 && results_.cancelled() == 0 && results_.left_out() == 0;
    if (is_all_ok && !arguments_.batch.retain) (void)client_->forget(id());
    if (results_.left_out() != 0) {
      std::fprintf(
          stderr, "locksley: results of %s jobs are not shown, because the input ended before them%s\n",
          with_commas(results_.left_out()).c_str(), joblog_.is_open() ? "; --resume runs them again" : "");
    }
    if (signal_) return 128 + *signal_;
    if (!is_all_ok) {
      std::string cancelled;
      if (results_.cancelled() != 0)
        cancelled = ", and " + with_commas(results_.cancelled()) + " did not run to their end";
      std::fprintf(stderr, "locksley: %s of %s jobs failed%s; the daemon has them as batch %s\n",
                   with_commas(results_.failed()).c_str(),
                   with_commas(results_.ended() + results_.cancelled()).c_str(), cancelled.c_str(),
                   id().c_str());
    }
    results_.look_at_halt(0, feed_->jobs());
    if (const auto status = results_.halt_status()) return *status;
    return plan_.halt().status_at_end(results_.failed() + results_.cancelled(),
                                      results_.ended() + results_.cancelled());
  }

  Context& context_;
  const ExecArguments& arguments_;
  ExecPlan& plan_;
  PassingNames names_;
  Joblog joblog_;
  Progress progress_;
  Output output_;
  ExecResults results_;
  Client* client_ = nullptr;
  std::optional<int> signal_;
  bool is_ending_ = false;   // the batch was cancelled by this program
  bool is_halting_ = false;  // for --halt soon, the feed was stopped by this program
  bool is_paused_ = false;   // and the batch was paused
  std::chrono::milliseconds store_fails_for_{0};
  std::optional<FeedThread> feed_;  // uses the names and the plan
};

}  // namespace

int run_exec(Context& context, ExecArguments arguments) {
  auto plan = ExecPlan::make(arguments);
  if (!plan) return context.fail({Kind::kLocal, "", plan.error()}), daemon::kExitExecFailed;
  if (arguments.is_dry_run) {
    const auto looked = plan->look_ahead(arguments);
    const auto printed = looked ? plan->print(context.signals().fd()) : std::unexpected(looked.error());
    if (!printed) {
      const int code = context.fail(printed.error());
      return printed.error().kind == Kind::kInterrupted ? code : daemon::kExitExecFailed;
    }
    return *printed == daemon::kExitIoError ? daemon::kExitExecFailed : *printed;
  }
  return ExecRun(context, arguments, *plan).run();
}

}  // namespace locksley::cli
