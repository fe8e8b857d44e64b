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

#include "proto/client/connection.h"
#include "proto/client/deadline.h"
#include "proto/client/error.h"
#include "proto/client/url.h"
#include "proto/client/values.h"
#include "proto/output_buffer.h"
#include "proto/reply.h"
#include "proto/submit_options.h"

namespace locksley::client {

using proto::BatchOptions;

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{5'000};  // of one try, the handshake included
  std::chrono::milliseconds reply_timeout{60'000};   // for a reply that needs no waiting for jobs
  std::chrono::milliseconds patience{10'000};  // how long a broken connection is tried again; 0: not at all
  std::string name = {};                       // of the connection, as CLIENT LIST shows it
  int interrupt_fd = -1;  // readable: blocking calls return kInterrupted. Borrowed; see Link
};

// What is done when the connection breaks before the reply: the same command once more, or an error.
enum class Repeat { kSafe, kNever };

// A daemon as seen by one thread: each call sends a command and waits for its reply. A connection that
// broke is made anew, with backoff, and a command that may be repeated is sent again; SUBMIT may be, because
// it always carries an ID.
//
// Owned by its creator; used from one thread at a time: two threads take two clients. Every call can block:
// for the reply (reply_timeout; wait() and results() for their own time), and for a new connection
// (patience). Every call can fail with any kind of ClientError, and after any failure the next call connects
// again.
class Client {
 public:
  using RowVisitor = std::function<void(const ResultRow&)>;

  // Connects once: a daemon that is not there is told at once, not after `patience`.
  static Expected<Client> connect(Address address, ClientOptions options = {});

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  ~Client() = default;

  // Any command; an error reply is kRefused.
  Expected<proto::Reply> call(std::initializer_list<std::string_view> command, Repeat repeat = Repeat::kSafe);
  Expected<proto::Reply> call(std::span<const std::string_view> command, Repeat repeat = Repeat::kSafe);

  // SUBMIT in one command, so held in memory once more while it is sent; for input without end there is
  // BatchStream. Returns the id: options.id, or a random one.
  Expected<std::string> submit(std::string_view handler, BatchOptions options,
                               std::span<const std::string_view> payloads);
  // One job for each integer in [low, high), see PROTOCOL.md.
  Expected<std::string> submit_range(std::string_view handler, BatchOptions options, std::int64_t low,
                                     std::int64_t high, std::optional<std::string_view> payload);
  // RUN: waits for the jobs until `deadline`. A broken connection cancels the batch, so that is an error.
  Expected<std::vector<JobResult>> run(std::string_view handler, const BatchOptions& options,
                                       std::span<const std::string_view> payloads,
                                       Deadline deadline = kNoDeadline);

  Expected<BatchStatus> status(std::string_view id);
  // The status once the batch is over, or at the deadline as it is then: look at is_over(). Asks in slices
  // shorter than any timeout on the way.
  Expected<BatchStatus> wait(std::string_view id, Deadline deadline = kNoDeadline);

  // One RESULTS command: shows the rows from `position` on, at most `count`, and moves it. With `block`,
  // waits that long for the first one; 0: answers at once. `position` counts each row that was shown, so that
  // a call that failed or was interrupted can be made again and no row is shown twice.
  struct ResultsPosition {
    std::uint64_t cursor = 0;
    std::uint64_t shown = 0;  // rows from the cursor on that `visit` has had
    bool at_end = false;      // the batch is over and everything was delivered
  };
  // Some hundred kilobytes of short outputs: few commands, little memory.
  static constexpr std::uint64_t kRowsAtOnce = 10'000;
  Expected<void> results(std::string_view id, ResultsPosition& position, std::uint64_t count,
                         std::chrono::milliseconds block, const RowVisitor& visit);
  // Every row of the batch in the order of completion, until it is over or the deadline is passed (kTimeout).
  Expected<void> for_each_result(std::string_view id, const RowVisitor& visit,
                                 Deadline deadline = kNoDeadline);

  Expected<Explanation> explain(std::string_view id);
  Expected<std::uint64_t> cancel(std::string_view id);
  Expected<bool> forget(std::string_view id);
  Expected<void> set_weight(std::string_view id, std::uint32_t weight);
  Expected<void> pause(std::string_view id);
  Expected<void> resume(std::string_view id);
  // `state` and `match` may be empty: any.
  Expected<BatchList> list(std::string_view state, std::string_view match, std::uint64_t cursor,
                           std::uint64_t count);
  Expected<std::vector<HandlerInfo>> handlers();
  Expected<std::vector<TenantInfo>> tenants();
  Expected<std::vector<WorkerInfo>> workers();
  Expected<void> ping();

  const Address& address() const { return address_; }

  // For classes built on this one (BatchStream). A command in pieces, whole once put together; `attempts`
  // says how often it was sent.
  struct Sent {
    proto::Reply reply;
    int attempts;
  };
  Expected<Sent> send(std::span<const std::string_view> pieces, Repeat repeat, Deadline deadline);
  // Waits, unless interrupted.
  Expected<void> sleep(std::chrono::milliseconds time);
  const ClientOptions& options() const { return options_; }

 private:
  using ReadReply = std::function<Expected<void>(Deadline)>;

  Client(Address address, ClientOptions options);
  Expected<void> open();
  // Sends `pieces` and calls `read`, again where `repeat` allows, until it succeeds or fails otherwise
  // than by a broken connection. Returns how often it was sent.
  Expected<int> transact(std::span<const std::string_view> pieces, Repeat repeat, Deadline deadline,
                         const ReadReply& read);
  Deadline reply_deadline() const { return deadline_in(options_.reply_timeout); }

  Address address_;
  ClientOptions options_;
  std::unique_ptr<Connection> connection_;
};

// Encodes `SUBMIT|OPEN|RUN handler options…` and announces `further` more arguments, which the caller adds.
void write_batch_command(proto::OutputBuffer& out, std::string_view command, std::string_view handler,
                         const BatchOptions& options, std::size_t further);

}  // namespace locksley::client
