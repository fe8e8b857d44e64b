// Sends the payloads of a command line to the daemon as one batch: on the caller's thread (Feed),
// or on a thread of its own (FeedThread).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/cli/context/context.h"
#include "daemon/cli/context/event.h"
#include "daemon/cli/context/options.h"
#include "daemon/cli/feed/payload_source.h"
#include "daemon/cli/names/passing_names.h"
#include "proto/clients/cpp/batch_stream.h"
#include "proto/clients/cpp/client.h"

namespace locksley::cli {

// Gives the next payload like PayloadSource::next(), if the payloads do not come from the command
// line.
using Payloads = std::function<client::Expected<PayloadSource::Outcome>(std::string& payload,
                                                                        std::chrono::milliseconds patience)>;

// Sends the payloads of a command line to the daemon as one batch. Input that fits one chunk goes
// by SUBMIT, and a range by SUBMIT RANGE. Input that is longer, or pauses, goes as a stream, whose
// jobs run while the rest arrives.
//
// If the daemon has a batch with the ID of the arguments that was begun as a stream, the jobs that
// the batch has are skipped: so the same command continues a stream that was interrupted.
//
// A batch that one SUBMIT made is found again only by a SUBMIT of the same jobs. So for an ID that
// is not new, input that pauses is collected instead of streamed if the daemon has a closed batch
// of this ID.
//
// Made and used by one thread. run() blocks for input, for the daemon, and for room in the daemon's
// queues. It fails as BatchStream and PayloadSource do, and then leaves the batch as it is.
class Feed {
 public:
  // What run() tells its caller; only `on_jobs` is needed.
  struct Events {
    // The number of jobs, as soon as the daemon has the batch, and each time the number grows. When
    // the first call is made, name() is final.
    std::function<void(std::uint64_t)> on_jobs;
    // Whether a stream waits for input.
    std::function<void(bool)> on_idle = {};
    // With --files: the name of each job's file, in their order, before the job is sent.
    std::function<void(const std::string&)> on_file = {};
  };

  // Borrows all arguments. arguments.batch.id must not be empty, so that the caller can cancel the
  // batch after any failure.
  Feed(client::Client& client, const SubmitArguments& arguments, int input_fd, int stop_fd, Events events,
       Payloads payloads = {});

  client::Expected<void> run();
  // The name of the batch for other commands: its id; user/id if an admin has made it for another
  // user. Before the daemon has it, a guess (client::likely_name()).
  const std::string& name() const { return name_; }
  // After run(): a command that makes the batch was sent, or was about to be.
  bool has_sent() const { return has_sent_; }
  // After run(): the index in the batch of a job that was refused because its payload is too long.
  std::optional<std::uint64_t> too_long() const { return too_long_; }
  // After run(): the daemon had the whole batch before, so nothing was started. False if that is
  // not known, as for a user who may not ask for STATUS.
  bool was_there() const { return was_there_; }

 private:
  // Asks whether there is a batch of this id, unless the id is new: the reply to SUBMIT does not
  // say so.
  client::Expected<void> look_whether_it_is_there();
  // The daemon has accepted the batch.
  client::Expected<void> accepted();
  // Whether the daemon has a batch of this id that takes no more jobs. Asks once.
  client::Expected<bool> is_there_and_closed();
  client::Expected<PayloadSource::Outcome> next_payload(std::string& payload);
  client::Expected<void> submit_range();
  // A batch is continued that has `jobs` jobs: reports them by `on_jobs`, and on standard error.
  void on_resumed(std::uint64_t jobs);
  // `exists`: the error of a SUBMIT of these jobs; none: there was no SUBMIT.
  client::Expected<void> stream(const std::vector<std::string>& first_chunk,
                                const std::optional<client::ClientError>& exists);
  // Sends all jobs, from the first one on.
  client::Expected<void> send_all(client::BatchStream& stream, const std::vector<std::string>& first_chunk);
  // The error of a command with jobs, of which the job with index `longest` has the longest
  // payload. If the error is about the length of a payload, sets too_long_ to this job.
  std::unexpected<client::ClientError> refused(client::ClientError error, std::uint64_t longest);

  client::Client& client_;
  const SubmitArguments& arguments_;
  PayloadSource source_;
  const Payloads payloads_;  // empty: source_
  const Events events_;
  std::string name_;
  std::optional<std::string> owner_before_;  // of the batch that look_whether_it_is_there() has found
  bool was_there_ = false;
  bool has_sent_ = false;
  std::optional<std::uint64_t> too_long_;
  std::optional<bool> is_there_and_closed_;
};

// A Feed on a thread and a connection of its own, so that `run` can read results while it submits:
// on one connection, unread results would block the input.
//
// Made and used by one thread. stop() and the destructor join the feed's thread; each of its waits
// ends at a stop.
class FeedThread {
 public:
  // Borrows all. Starts at once. With --files the names of the files go into `names`, unless it is
  // null.
  FeedThread(const Context& context, const SubmitArguments& arguments, PassingNames* names);
  // The payloads come from the function that `make_payloads` returns; `make_payloads` is called on
  // the feed's thread, with the descriptor that becomes readable at a stop.
  using MakePayloads = std::function<Payloads(int stop_fd)>;
  FeedThread(const Context& context, const SubmitArguments& arguments, MakePayloads make_payloads);
  ~FeedThread() { stop(); }
  FeedThread(const FeedThread&) = delete;
  FeedThread& operator=(const FeedThread&) = delete;

  // Readable as soon as the daemon has the batch, or the feed has failed.
  int settled_fd() const { return settled_.fd(); }
  bool has_begun() const { return begun_; }
  bool is_over() const { return over_; }
  // All that was read has been sent, and no more input has come for a while.
  bool awaits_input() const { return awaits_input_; }
  // Once it has begun: Feed::name().
  const std::string& name() const { return name_; }
  // Jobs that the daemon has confirmed.
  std::uint64_t jobs() const { return jobs_; }

  // See Feed. Call them only after is_over().
  bool has_sent() const { return has_sent_; }
  bool was_there() const { return was_there_; }
  std::optional<std::uint64_t> too_long() const { return too_long_; }

  // Ends the input at its current position, and joins the thread.
  void stop();
  // Why the input ended early. Call it only after is_over().
  const std::optional<client::ClientError>& error() const { return error_; }

 private:
  void run(const Context& context, const SubmitArguments& arguments, PassingNames* names,
           const MakePayloads& make_payloads);

  Event stop_;
  Event settled_;
  // Written by the feed's thread, read by the other; once true, a flag stays true, and over_
  // publishes error_, was_there_, has_sent_ and too_long_.
  std::atomic<bool> begun_{false};
  std::atomic<bool> over_{false};
  // Written by the feed's thread through Feed. A reader that sees it true may be late: input may
  // just have come.
  std::atomic<bool> awaits_input_{false};
  // Written by the feed's thread through Feed; the number of all jobs once over_ is true.
  std::atomic<std::uint64_t> jobs_{0};
  std::optional<client::ClientError> error_;
  std::string name_;  // begun_ publishes it
  bool was_there_ = false;
  bool has_sent_ = false;
  std::optional<std::uint64_t> too_long_;
  std::thread thread_;  // the last member: it uses all the others
};

}  // namespace locksley::cli
