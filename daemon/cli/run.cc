#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "core/base/job.h"
#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/context/progress.h"
#include "daemon/cli/feed/feed.h"
#include "daemon/cli/feed/payload_source.h"
#include "daemon/cli/names/passing_names.h"
#include "daemon/cli/names/path_check.h"
#include "daemon/cli/names/result_files.h"
#include "daemon/cli/row_sink.h"
#include "daemon/cli/text/json.h"
#include "daemon/cli/text/number_text.h"
#include "daemon/cli/waiting_notice.h"
#include "proto/clients/cpp/batch_id.h"

namespace locksley::cli {
namespace {

using client::Client;
using client::ClientError;
using Kind = client::ClientError::Kind;

// How long one RESULTS blocks. The progress on the screen is never older than this.
constexpr std::chrono::milliseconds kRowsSlice{500};

// How often the main thread looks whether the feed is over, once the batch is over.
constexpr std::chrono::milliseconds kFeedLook{1};

// For how long results that the daemon cannot read from its disk are requested again.
constexpr std::chrono::milliseconds kStorePatience = client::BatchStream::kRestartPatience;

// The largest --range whose paths are checked, in jobs; the check takes about ten seconds. Guess:
// users do not write more files by one command.
constexpr std::uint64_t kMostRangePaths = 10'000'000;

// The names of the inputs, if all of them are known; else an empty function.
NameOf input_names(const PayloadOptions& payloads) {
  if (payloads.range) return [&payloads](std::uint64_t index) { return range_payload(payloads, index); };
  if (payloads.arguments.empty()) return {};
  return [&payloads](std::uint64_t index) {
    return index < payloads.arguments.size() ? std::optional(payloads.arguments[index]) : std::nullopt;
  };
}

// Reads the names of all inputs, and checks before any job is submitted that all outputs can be
// written. Names that were on standard input are then `payloads.arguments`.
client::Expected<void> check_all_inputs(const Context& context, PayloadOptions& payloads,
                                        const PathTemplate& paths) {
  if (payloads.arguments.empty() && !payloads.range) {
    auto names = read_names(payloads, context.signals().fd());
    if (!names) return std::unexpected(std::move(names.error()));
    payloads.arguments = *std::move(names);
  }
  std::uint64_t jobs = payloads.arguments.size();
  if (payloads.range) {
    jobs = static_cast<std::uint64_t>(payloads.range->second) -
           static_cast<std::uint64_t>(payloads.range->first);
    if (jobs > kMostRangePaths) {
      return client::client_error(Kind::kLocal, "--results: a range of " + with_commas(jobs) +
                                                    " jobs has too many names to be checked: use {#}");
    }
  }
  return check_paths(paths, jobs, input_names(payloads), payloads.files ? NamesAre::kFiles : NamesAre::kText);
}

enum class Answer { kCancel, kLeave, kGoOn };

Answer ask_on(int terminal, Signals& signals, const std::string& batch) {
  for (;;) {
    std::fprintf(stderr, "\nInterrupted. Batch %s: (c)ancel it, (l)eave it to run, or Enter to go on? ",
                 batch.c_str());
    std::fflush(stderr);
    pollfd entries[] = {{.fd = terminal, .events = POLLIN, .revents = 0},
                        {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    ::poll(entries, 2, -1);
    if (signals.take()) {
      std::fputs("\n", stderr);
      return Answer::kLeave;
    }
    std::array<char, 256> line{};
    const ssize_t count = ::read(terminal, line.data(), line.size());
    if (count <= 0) return Answer::kLeave;  // the terminal went away
    switch (line[0]) {
      case 'c':
      case 'C':
        return Answer::kCancel;
      case 'l':
      case 'L':
        return Answer::kLeave;
      case '\n':
        return Answer::kGoOn;
      default:
        break;
    }
  }
}

// After Ctrl-C in `run`: asks on the terminal whether to cancel the batch, leave it or go on.
// Another signal while it asks means leave. Without a terminal the answer is cancel. Blocks until
// there is an answer.
Answer ask_after_interrupt(Signals& signals, const std::string& batch) {
  if (::isatty(STDERR_FILENO) != 1) return Answer::kCancel;
  // Not standard input, which may be the payloads.
  const int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (terminal < 0) return Answer::kCancel;
  const Answer answer = ask_on(terminal, signals, batch);
  ::close(terminal);
  return answer;
}

// One `locksley run`: the steps in the order in which they happen.
class Run {
 public:
  // `files`: for the outputs; null: standard output. Borrows all.
  Run(Context& context, const RunArguments& arguments, ResultFiles* files)
      : context_(context),
        arguments_(arguments),
        id_(client::likely_name(arguments.submit.batch)),
        has_stream_of_names_(arguments.submit.payloads.files && arguments.submit.payloads.arguments.empty()),
        progress_(arguments.progress, arguments.submit.batch.name),
        output_(STDOUT_FILENO, context.signals().fd()),
        sink_({.json = context.json(),
               .ordered = arguments.ordered,
               .files = files,
               .name_of = has_stream_of_names_ ? [this](std::uint64_t index) { return names_.take(index); }
                                               : input_names(arguments.submit.payloads),
               .shows_names = arguments.submit.payloads.files},
              output_, [this] { progress_.clear(); }) {}

  int run() {
    auto client = context_.connect();
    if (!client) return context_.fail(client.error());
    client_ = &*client;
    say_if_terminal_is_read(arguments_.submit.payloads);
    feed_.emplace(context_, arguments_.submit, has_stream_of_names_ ? &names_ : nullptr);
    while (!feed_->has_begun() && !feed_->is_over()) {
      wait_for_the_feed();
      if (const auto code = interruption()) return *code;
    }
    if (!feed_->has_begun()) {
      feed_->stop();
      const auto error =
          feed_->error().value_or(ClientError{Kind::kProtocol, "", "the batch was not submitted"});
      const int code = context_.fail(error);
      if (feed_->has_sent()) say_it_may_be_there(error, id_);
      return code;
    }
    id_ = feed_->name();
    return read_results();
  }

 private:
  int read_results() {
    Client::ResultsPosition position;
    while (!position.at_end) {
      const auto read = client_->results(id_, position, Client::kRowsAtOnce, kRowsSlice,
                                         [this](const client::ResultRow& row) {
                                           // On one screen the bar is removed before outputs are
                                           // printed.
                                           if (shares_the_screen_) progress_.clear();
                                           sink_.add(row);
                                         });
      output_.flush();
      progress_.update(counts());
      if (output_.error() != 0) return after_failed_output();
      if (!sink_.problem().empty()) return after_local_error(sink_.problem());
      if (has_feed_failed()) return after_failed_feed();
      if (const auto code = interruption()) return *code;
      if (!read && may_be_read_later(read.error())) continue;
      if (read) store_fails_for_ = {};
      waiting_.update(*client_, id_, sink_.rows(), [this] { progress_.clear(); });
      if (!read && read.error().kind != Kind::kInterrupted) {
        progress_.clear();
        const int code = context_.fail(read.error());
        say_it_is_left();
        return code;
      }
    }
    sink_.finish();
    if (output_.error() != 0) return after_failed_output();
    if (!sink_.problem().empty()) return after_local_error(sink_.problem());
    // A signal stops the output: take the signal, then write the rest.
    while (!output_.is_empty()) {
      if (const auto code = interruption()) return *code;
      output_.flush();
      if (output_.error() != 0) return after_failed_output();
    }
    // The batch is over. If its feed did not close it, another client did: input that was read and
    // not added is then an error.
    while (!feed_->is_over() && !feed_->awaits_input()) {
      (void)client_->sleep(kFeedLook);
      if (const auto code = interruption()) return *code;
    }
    if (has_feed_failed()) return after_failed_feed();
    feed_->stop();
    if (feed_->was_there()) {
      progress_.clear();
      say_it_was_there(id_);
    }
    return summary();
  }

  // A cancelled batch takes no more input: that is no failure of the feed, and the summary says
  // that the batch was cancelled.
  bool has_feed_failed() {
    if (!feed_->is_over() || !feed_->error() || is_cancelled_) return false;
    if (feed_->error()->code != "CLOSED") return true;
    const auto status = client_->status(id_);
    is_cancelled_ = status && (status->state == "cancelled" || status->cancelled > 0);
    return !is_cancelled_;
  }

  // Whether to request the results again. While there is input left, the feed decides how long to
  // wait for a daemon that has gone.
  bool may_be_read_later(const ClientError& error) {
    if (error.kind == Kind::kUnavailable) return !feed_->is_over();
    if (error.code != "STORE" || store_fails_for_ >= kStorePatience) return false;
    store_fails_for_ += kRowsSlice;
    // A signal ends the sleep; read_results() takes the signal after the next request.
    (void)client_->sleep(kRowsSlice);
    return true;
  }

  void wait_for_the_feed() const {
    pollfd entries[] = {{.fd = feed_->settled_fd(), .events = POLLIN, .revents = 0},
                        {.fd = context_.signals().fd(), .events = POLLIN, .revents = 0}};
    ::poll(entries, 2, -1);
  }

  ProgressCounts counts() const {
    return {
        .done = sink_.rows(), .failed = sink_.failed(), .total = feed_->jobs(), .is_open = !feed_->is_over()};
  }

  // The exit status if a signal came and the user, if there is a terminal to ask on, does not want
  // to go on.
  std::optional<int> interruption() {
    const auto signal = context_.signals().take();
    if (!signal) return {};
    progress_.clear();
    const Answer answer = *signal == SIGINT ? ask_after_interrupt(context_.signals(), id_) : Answer::kCancel;
    if (answer == Answer::kGoOn) return {};
    feed_->stop();
    if (answer == Answer::kCancel) {
      cancel();
    } else {
      leave();
    }
    return 128 + *signal;
  }

  void cancel() {
    if (const auto jobs = client_->cancel(id_)) {
      say_it_is_cancelled(id_, *jobs);
    } else if (jobs.error().code == "NOBATCH") {
      std::fprintf(stderr, "locksley: batch %s was not submitted before the interruption\n", id_.c_str());
    } else {
      context_.fail(jobs.error());
      if (is_outcome_unknown(jobs.error())) {
        say_it_may_be_cancelled(id_);
      } else {
        say_it_is_left();
      }
    }
  }

  void leave() {
    // The batch ends with the jobs that were submitted so far. If it was closed already, the reply
    // is CLOSED, which does no harm.
    (void)client_->call({"CLOSE", id_});
    say_it_is_left();
  }

  void say_it_is_left() const {
    std::fprintf(stderr, "locksley: batch %s is left as it is; see `locksley status %s`\n", id_.c_str(),
                 id_.c_str());
  }

  // The reader of the outputs has gone, as after `| head`: cancels the rest, without a message.
  int after_broken_pipe() {
    progress_.clear();
    feed_->stop();
    (void)client_->cancel(id_);
    return daemon::kExitBrokenPipe;
  }

  int after_failed_output() {
    if (output_.error() == EPIPE) return after_broken_pipe();
    return after_local_error("standard output: " + std::string(std::strerror(output_.error())));
  }

  // This side cannot write the outputs, but the daemon keeps them: the batch goes on.
  int after_local_error(const std::string& what) {
    progress_.clear();
    feed_->stop();
    const int code = context_.fail({Kind::kLocal, "", what});
    leave();
    return code;
  }

  int after_failed_feed() {
    progress_.clear();
    const int code = context_.fail(*feed_->error());
    if (is_temporary(*feed_->error())) {
      say_how_to_go_on(id_);
    } else if (feed_->error()->code == "EXISTS" || feed_->error()->code == "CLOSED") {
      say_it_is_left();  // it was there before, with other jobs, or is closed already
    } else {
      cancel();
    }
    return code;
  }

  int summary() {
    const auto status = client_->status(id_);
    if (!status) {
      progress_.clear();
      return context_.fail(status.error());
    }
    progress_.finish(
        {.done = status->ended(), .failed = sink_.failed(), .total = status->jobs, .is_open = false});
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(now() - started_);
    const double seconds = std::chrono::duration<double>(now() - started_).count();
    if (context_.json()) {
      std::fprintf(stderr, "%s\n",
                   json_object({{"id", id_},
                                {"state", status->state},
                                {"jobs", status->jobs},
                                {"ok", status->ok},
                                {"failed", status->failed},
                                {"cancelled", status->cancelled},
                                {"seconds", seconds}})
                       .c_str());
    } else {
      std::fprintf(stderr, "%s %s in %s: %s ok", with_commas(status->jobs).c_str(),
                   status->jobs == 1 ? "job" : "jobs", short_duration(time).c_str(),
                   with_commas(status->ok).c_str());
      if (status->failed > 0) std::fprintf(stderr, ", %s failed", with_commas(status->failed).c_str());
      if (status->cancelled > 0)
        std::fprintf(stderr, ", %s cancelled", with_commas(status->cancelled).c_str());
      std::fprintf(stderr, " (%s jobs/s)\n",
                   short_number(static_cast<double>(status->ended()) / seconds).c_str());
    }
    if (!status->is_all_ok()) {
      std::fprintf(stderr, "locksley: the results stay with the daemon as batch %s\n", id_.c_str());
      return daemon::kExitJobsFailed;
    }
    // All results were delivered, so the daemon may forget the batch, unless the user set RETAIN.
    // If that fails, the user needs no error.
    if (!arguments_.submit.batch.retain) (void)client_->forget(id_);
    return daemon::kExitOk;
  }

  Context& context_;
  const RunArguments& arguments_;
  std::string id_;  // as Feed::name()
  const Instant started_ = now();
  const bool shares_the_screen_ = ::isatty(STDOUT_FILENO) == 1;
  const bool has_stream_of_names_;
  PassingNames names_;  // of the stream
  Progress progress_;
  Output output_;
  RowSink sink_;
  WaitingNotice waiting_;
  Client* client_ = nullptr;
  bool is_cancelled_ = false;                     // found out by has_feed_failed()
  std::chrono::milliseconds store_fails_for_{0};  // without a page in between
  std::optional<FeedThread> feed_;
};

}  // namespace

int run_run(Context& context, RunArguments arguments) {
  SubmitArguments& submit = arguments.submit;
  if (submit.batch.id.empty()) {
    submit.batch.id = client::random_batch_id();
    submit.has_new_id = true;
  }
  if (arguments.results.empty()) return Run(context, arguments, nullptr).run();
  ResultFiles files(PathTemplate::parse(arguments.results));
  if (files.paths().needs_names()) {
    if (auto checked = check_all_inputs(context, submit.payloads, files.paths()); !checked)
      return context.fail(checked.error());
  }
  if (auto begun = files.begin(); !begun) return context.fail(begun.error());
  return Run(context, arguments, &files).run();
}

}  // namespace locksley::cli
