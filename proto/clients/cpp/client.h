// The client library's main class: a function for each command, with typed replies, reconnection
// and repetition. One thread at a time uses a Client.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/connection.h"
#include "proto/clients/cpp/deadline.h"
#include "proto/clients/cpp/error.h"
#include "proto/clients/cpp/route.h"
#include "proto/clients/cpp/url.h"
#include "proto/clients/cpp/values.h"
#include "proto/customer_settings.h"
#include "proto/output_buffer.h"
#include "proto/reply.h"
#include "proto/submit_options.h"

namespace locksley::client {

using proto::BatchOptions;

// How long a Client waits, and what the daemon calls its connection.
struct ClientOptions {
  std::chrono::milliseconds connect_timeout{5'000};  // of one attempt, the handshake included
  std::chrono::milliseconds reply_timeout{60'000};   // of commands that do not wait for jobs
  // For how long to reconnect after a failure, and to look for the daemon that serves; 0: one round
  // of attempts.
  std::chrono::milliseconds patience{10'000};
  std::string name = {};  // of the connection, as CLIENT LIST shows it
  int interrupt_fd = -1;  // readable: blocking calls return kInterrupted. Borrowed; see Link
  // Called once in a call that has failed twice, before it waits for its next attempt, on the
  // caller's thread: so not for a connection that only broke. It must not call the client.
  std::function<void(const ClientError&)> on_outage = {};
};

// If the connection breaks before the reply: kSafe sends the command again, kNever returns an
// error.
enum class Repeat { kSafe, kNever };

// A synchronous client of one daemon, or of the one that serves among several: each call sends a
// command and waits for its reply. After a broken connection it reconnects, with backoff, and
// repeats a command that may be repeated; SUBMIT may be, because it always has an ID. If a daemon
// is on standby, the client goes to the daemon that this one names; if it is taking over, the
// client asks it again, until `patience` is over. Neither has executed the command, so any command
// is repeated then.
//
// Owned by its creator; used from one thread at a time: two threads need two clients. Every call
// can block: for the reply (reply_timeout; wait() and results() for their own time, and for
// `patience` longer if the daemon hangs), and for a new connection (patience). Every call can fail
// with any kind of ClientError; after a failure the next call reconnects.
//
// Members: a call for each command.
class Client {
 public:
  // A visitor is called while the reply is read, so it may call another client but not this one:
  // that fails with kLocal. An exception of the visitor leaves the call; its row counts as visited,
  // and the next call reconnects.
  using RowVisitor = std::function<void(const ResultRow&)>;

  // Makes one attempt to connect: an absent daemon is reported at once, not after `patience`.
  static Expected<Client> connect(Address address, ClientOptions options = {});
  // Tries the addresses in turn, for `patience`, and connects to the first daemon that accepts. An
  // attempt takes 2 s at most: an address whose machine is gone must not use up the patience.
  // `addresses`: at least one; with one as above.
  static Expected<Client> connect(std::vector<Address> addresses, ClientOptions options = {});

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  ~Client() = default;

  // Any command; an error reply is kRefused.
  Expected<proto::Reply> call(std::initializer_list<std::string_view> command, Repeat repeat = Repeat::kSafe);
  Expected<proto::Reply> call(std::span<const std::string_view> command, Repeat repeat = Repeat::kSafe);

  // JOB of several jobs of one batch, as one pipeline: the replies in their order. An error reply
  // stays in the place of its job. All replies are in memory at once.
  Expected<std::vector<proto::Reply>> jobs(std::string_view id, std::span<const std::uint64_t> indexes);
  // LOG of several jobs, likewise.
  Expected<std::vector<proto::Reply>> logs(std::string_view id, std::span<const std::uint64_t> indexes);
  Expected<JobInfo> job(std::string_view id, std::uint64_t index);
  // What the job has written to standard error from `from` on. `block`: waits that long for more;
  // 0: not at all.
  Expected<LogPart> log(std::string_view id, std::uint64_t index, std::uint64_t from,
                        std::chrono::milliseconds block = std::chrono::milliseconds{0});
  // The name in other commands of a batch with these options, which the daemon has: its id; user/id
  // if an admin has made it for user/customer. Asks the daemon only if the customer has a slash.
  Expected<std::string> name_of(const proto::BatchOptions& options);
  // The running jobs of one batch, or with an empty id of all batches.
  Expected<std::vector<RunningJob>> running(std::string_view id = {});

  // SUBMIT as one command, of which a copy is in memory while it is sent; use BatchStream for
  // unbounded input. Returns the id: options.id, or a random one. See name_of().
  Expected<std::string> submit(std::string_view handler, BatchOptions options,
                               std::span<const std::string_view> payloads);
  // One job for each integer in [low, high), see PROTOCOL.md.
  Expected<std::string> submit_range(std::string_view handler, BatchOptions options, std::int64_t low,
                                     std::int64_t high, std::optional<std::string_view> payload);
  // RUN: waits for the jobs until `deadline`. A broken connection is an error, because it cancels
  // the batch.
  Expected<std::vector<JobResult>> run(std::string_view handler, const BatchOptions& options,
                                       std::span<const std::string_view> payloads,
                                       Deadline deadline = kNoDeadline);

  Expected<BatchStatus> status(std::string_view id);
  // The status as soon as the batch is over, or at the deadline: check is_over(). Sends WAIT in
  // slices that are shorter than the timeouts of proxies.
  Expected<BatchStatus> wait(std::string_view id, Deadline deadline = kNoDeadline);

  // One RESULTS command: visits at most `count` rows from `position` on, and moves the position.
  // With `block` it waits that long for the first row; 0: not at all. `position` notes each visited
  // row, so that after a failure or an interruption the call can be repeated without visiting a row
  // twice.
  struct ResultsPosition {
    std::uint64_t cursor = 0;
    // The jobs whose rows after the cursor were visited before a reply broke off. After a crash of
    // the daemon these rows may come in another order.
    std::vector<std::uint64_t> shown = {};
    bool at_end = false;  // the batch is over and everything was delivered
  };
  // Some hundred kilobytes of short outputs: few commands, little memory.
  static constexpr std::uint64_t kRowsAtOnce = 10'000;
  // kDiscarded: the daemon discards the rows before the position, for good.
  enum class Passed : std::uint8_t { kKept, kDiscarded };
  // kFailed: only the rows that are not ok.
  enum class Rows : std::uint8_t { kAll, kFailed };
  Expected<void> results(std::string_view id, ResultsPosition& position, std::uint64_t count,
                         std::chrono::milliseconds block, const RowVisitor& visit,
                         Passed passed = Passed::kKept, Rows which = Rows::kAll);
  // Every row of the batch in the order of completion, until it is over or the deadline is passed
  // (kTimeout).
  Expected<void> for_each_result(std::string_view id, const RowVisitor& visit,
                                 Deadline deadline = kNoDeadline);

  Expected<Explanation> explain(std::string_view id);
  // Returns how many jobs will not run because of it; jobs that run are asked to stop.
  Expected<std::uint64_t> cancel(std::string_view id);
  // RETRY with the ROUND of a STATUS before it, so that it is executed once though it may be sent
  // again. Returns how many jobs are queued again; nothing, if they are queued but the reply with
  // their number was lost. For a user who may not ask for STATUS, sends a RETRY that is not
  // repeated. `indexes`: only these jobs; empty: all that have failed.
  Expected<std::optional<std::uint64_t>> retry(std::string_view id,
                                               std::span<const std::uint64_t> indexes = {});
  // Drops a finished batch and its results; false if there was none to drop.
  Expected<bool> forget(std::string_view id);
  Expected<void> set_weight(std::string_view id, std::uint32_t weight);
  // 0: no bound.
  Expected<void> set_slots(std::string_view id, std::uint32_t slots);
  Expected<void> pause(std::string_view id);
  Expected<void> resume(std::string_view id);
  // `state` and `match` may be empty: any.
  Expected<BatchList> list(std::string_view state, std::string_view match, std::uint64_t cursor,
                           std::uint64_t count);
  Expected<std::vector<HandlerInfo>> handlers();
  Expected<std::vector<TenantInfo>> tenants();
  // Settings that `changes` lacks stay unchanged.
  Expected<void> set_customer(std::string_view customer, const proto::CustomerSettings& changes);
  Expected<CustomerInfo> customer(std::string_view customer);
  // Returns whether the customer had settings of its own.
  Expected<bool> delete_customer(std::string_view customer);
  // `match` may be empty: any.
  Expected<CustomerList> customers(std::string_view match, std::uint64_t cursor, std::uint64_t count);
  Expected<WorkerList> workers();
  Expected<void> ping();

  // Finds the daemon that serves, as any command does. Succeeds also for a user who may not read.
  Expected<void> find_serving();
  // The address of the last attempt: after a successful call, that of the daemon that serves.
  const Address& address() const { return route_.current(); }

  // For classes that use this one (BatchStream). `buffers` together are one encoded command;
  // `attempts` says how often it was sent.
  struct Sent {
    proto::Reply reply;
    int attempts;
  };
  Expected<Sent> send(std::span<const std::string_view> buffers, Repeat repeat, Deadline deadline);
  // Waits, unless interrupted.
  Expected<void> sleep(std::chrono::milliseconds time);
  const ClientOptions& options() const { return options_; }

 private:
  Expected<std::vector<proto::Reply>> of_each_job(std::string_view command, std::string_view id,
                                                  std::span<const std::uint64_t> indexes);
  using ReadReply = std::function<Expected<void>(Deadline)>;

  class Attempts;
  class Reading;

  Client(Route route, ClientOptions options);
  Expected<void> open();
  Expected<void> reach();
  // Sends `buffers` and calls `read`, whose error is the error reply if is_elsewhere(). If the
  // connection breaks and `repeat` allows it, starts again. Returns how often the command was sent.
  Expected<int> transact(std::span<const std::string_view> buffers, Repeat repeat, Deadline deadline,
                         const ReadReply& read);
  Expected<proto::Reply> call(std::span<const std::string_view> command, Repeat repeat, Deadline deadline);
  Expected<void> read_results(std::string_view id, ResultsPosition& position, std::uint64_t count,
                              std::chrono::milliseconds block, const RowVisitor& visit, Passed passed,
                              Rows which, Deadline deadline);
  Deadline reply_deadline() const { return deadline_in(options_.reply_timeout); }
  // The deadline of the reply to a command that waits until `waited` at most.
  Deadline reply_deadline(Deadline waited) const {
    return waited == kNoDeadline ? reply_deadline() : earlier(reply_deadline(), waited + options_.patience);
  }

  Route route_;
  ClientOptions options_;
  std::unique_ptr<Connection> connection_;
  bool is_reading_ = false;  // a reply is being read, and a visitor may run
};

// Encodes `SUBMIT|OPEN|RUN handler options…` and announces `further` more arguments, which the
// caller must add.
void write_batch_command(proto::OutputBuffer& out, std::string_view command, std::string_view handler,
                         const BatchOptions& options, std::size_t further);

}  // namespace locksley::client
