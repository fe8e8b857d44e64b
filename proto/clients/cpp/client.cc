// Length: a function for each command of the daemon, most of a few lines.
#include "proto/clients/cpp/client.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "proto/clients/cpp/backoff.h"
#include "proto/clients/cpp/batch_id.h"
#include "proto/clients/cpp/buffers.h"
#include "proto/command_writer.h"

namespace locksley::client {

using Kind = ClientError::Kind;
using proto::CommandWriter;
using proto::OutputBuffer;
using proto::ReadStatus;
using proto::Reply;

namespace {

// How long one WAIT or RESULTS BLOCK asks the daemon to wait: shorter than the idle timeouts of
// firewalls and proxies, and long enough to cost nothing.
constexpr std::chrono::milliseconds kSlice{10'000};

// The timeout of one attempt to connect, if there are several addresses. A lost SYN is sent again
// after a second.
constexpr std::chrono::milliseconds kAttemptOfSeveral{2'000};

// The most bytes of one read of results: many, so that reading takes few system calls.
constexpr std::size_t kReadBytes = std::size_t{256} << 10;

// The part of `deadline` that one slice may take; at least a millisecond, as 0 means for ever to
// WAIT.
std::chrono::milliseconds slice_until(Deadline deadline) {
  if (deadline == kNoDeadline) return kSlice;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::clamp(rest, std::chrono::milliseconds{1}, kSlice);
}

void add(std::vector<std::string_view>& command, std::string_view option, std::string_view value) {
  command.push_back(option);
  command.push_back(value);
}

template <class Value>
Expected<Value> as(const Expected<Reply>& reply, Expected<Value> (*convert)(const Reply&)) {
  if (!reply) return std::unexpected(reply.error());
  return convert(*reply);
}

// The error of a daemon that is not the one that serves.
std::optional<ClientError> elsewhere(const Reply& reply) {
  if (!reply.is_error()) return {};
  ClientError error = refused(reply.text);
  return is_elsewhere(error.code) ? std::optional(std::move(error)) : std::nullopt;
}

Expected<void> as_nothing(const Expected<Reply>& reply) {
  if (!reply) return std::unexpected(reply.error());
  return {};
}

}  // namespace

void write_batch_command(OutputBuffer& out, std::string_view command, std::string_view handler,
                         const BatchOptions& options, std::size_t further) {
  const std::vector<std::string> words = proto::words_of(options);
  CommandWriter writer(out);
  writer.begin(2 + words.size() + further);
  writer.argument(command);
  writer.argument(handler);
  for (const std::string& word : words) writer.argument(word);
}

// Decides what follows a failed attempt: an error, or the next attempt, at once or after a pause.
class Client::Attempts {
 public:
  Attempts(Client& client, Deadline deadline) : client_(client), deadline_(deadline) {}

  // Returns the error if no attempt follows.
  Expected<void> prepare_next(ClientError error) {
    Route& route = client_.route_;
    const auto next = route.after(error);
    if (!next) return std::unexpected(std::move(error));
    // The first failure starts the clock; a connection that is made and breaks again does not set
    // it back.
    if (!give_up_) give_up_ = earlier(deadline_in(client_.options_.patience), deadline_);
    const bool is_at_once = next == Route::Next::kAtOnce;
    const auto pause = is_at_once ? std::chrono::milliseconds{0} : backoff_.next();
    if (Clock::now() + pause >= (is_at_once ? deadline_ : *give_up_)) {
      if (route.is_list())
        error.message = "no daemon of " + route.text() + " serves; the last one: " + error.message;
      return std::unexpected(std::move(error));
    }
    if (is_at_once) return {};
    if (++pauses_ == 2 && client_.options_.on_outage) client_.options_.on_outage(error);
    return client_.sleep(pause);
  }

 private:
  Client& client_;
  const Deadline deadline_;
  std::optional<Deadline> give_up_;
  int pauses_ = 0;
  Backoff backoff_{std::random_device{}()};
};

// Lives while a reply is read whose rows a visitor may get. If the visitor throws, the rest of the
// reply is still to come, and would be taken for the reply to the next command: the destructor
// closes the connection.
class Client::Reading {
 public:
  explicit Reading(Client& client) : client_(client) { client_.is_reading_ = true; }
  ~Reading() {
    if (std::exchange(client_.is_reading_, false)) client_.connection_->close();
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void ended() { client_.is_reading_ = false; }

 private:
  Client& client_;
};

Client::Client(Route route, ClientOptions options)
    : route_(std::move(route)),
      options_(std::move(options)),
      connection_(std::make_unique<Connection>(options_.interrupt_fd)) {}

Expected<Client> Client::connect(Address address, ClientOptions options) {
  return connect(std::vector{std::move(address)}, std::move(options));
}

Expected<Client> Client::connect(std::vector<Address> addresses, ClientOptions options) {
  Client client(Route(std::move(addresses)), std::move(options));
  auto reached = client.route_.is_list() ? client.reach() : client.open();
  if (!reached) return std::unexpected(std::move(reached.error()));
  return client;
}

Expected<void> Client::open() {
  const auto time =
      route_.is_list() ? std::min(options_.connect_timeout, kAttemptOfSeveral) : options_.connect_timeout;
  auto opened = connection_->open(route_.current(), options_.name, deadline_in(time));
  // A daemon that accepts and says nothing is no reason not to try the others.
  if (!opened && opened.error().kind == Kind::kTimeout && route_.is_list()) {
    opened.error().kind = Kind::kUnavailable;
  }
  return opened;
}

Expected<void> Client::reach() {
  Attempts attempts(*this, kNoDeadline);
  for (;;) {
    auto opened = open();
    if (opened) return opened;
    if (auto next = attempts.prepare_next(std::move(opened.error())); !next) return next;
  }
}

Expected<void> Client::find_serving() {
  auto reply = call({"HANDLERS"});
  if (!reply && reply.error().code == "NOPERM") return {};
  return as_nothing(reply);
}

Expected<void> Client::sleep(std::chrono::milliseconds time) { return connection_->pause(deadline_in(time)); }

Expected<int> Client::transact(std::span<const std::string_view> buffers, Repeat repeat, Deadline deadline,
                               const ReadReply& read) {
  if (is_reading_) {
    return client_error(Kind::kLocal,
                        "a visitor of results may not call its client: the reply is not read yet");
  }
  int sent = 0;
  Attempts attempts(*this, deadline);
  for (;;) {
    Expected<void> outcome = connection_->is_open() ? Expected<void>{} : open();
    const bool is_sent = outcome.has_value();
    if (is_sent) {
      ++sent;
      for (const std::string_view buffer : buffers) connection_->send(buffer);
      Reading reading(*this);
      outcome = read(deadline);
      reading.ended();
    }
    if (outcome) {
      route_.serving();
      return sent;
    }
    ClientError& error = outcome.error();
    // The connection must not use the caller's bytes after this function has returned, and a
    // pipeline that was refused has more replies to come.
    if (error.kind != Kind::kRefused || is_elsewhere(error.code)) connection_->close();
    if (is_sent && is_elsewhere(error.code)) --sent;
    if (sent > 0 && repeat == Repeat::kNever) return std::unexpected(std::move(error));
    if (auto next = attempts.prepare_next(std::move(error)); !next) {
      return std::unexpected(std::move(next.error()));
    }
  }
}

Expected<Client::Sent> Client::send(std::span<const std::string_view> buffers, Repeat repeat,
                                    Deadline deadline) {
  Sent result{};
  const auto sent = transact(buffers, repeat, deadline, [&](Deadline until) -> Expected<void> {
    auto reply = connection_->read(until);
    if (!reply) return std::unexpected(std::move(reply.error()));
    if (auto error = elsewhere(*reply)) return std::unexpected(*std::move(error));
    result.reply = std::move(*reply);
    return {};
  });
  if (!sent) return std::unexpected(sent.error());
  if (result.reply.is_error()) return std::unexpected(refused(result.reply.text));
  result.attempts = *sent;
  return result;
}

Expected<Reply> Client::call(std::span<const std::string_view> command, Repeat repeat) {
  return call(command, repeat, reply_deadline());
}

Expected<Reply> Client::call(std::span<const std::string_view> command, Repeat repeat, Deadline deadline) {
  OutputBuffer out;
  CommandWriter writer(out);
  writer.begin(command.size());
  for (const std::string_view argument : command) writer.argument(argument);
  auto sent = send(buffers_of(out), repeat, deadline);
  if (!sent) return std::unexpected(std::move(sent.error()));
  return std::move(sent->reply);
}

Expected<Reply> Client::call(std::initializer_list<std::string_view> command, Repeat repeat) {
  return call(std::span(command.begin(), command.size()), repeat);
}

Expected<std::string> Client::name_of(const BatchOptions& options) {
  std::string name = likely_name(options);
  if (name == options.id) return name;
  const auto there = status(name);
  if (there) return name;
  if (there.error().kind != ClientError::Kind::kRefused) return std::unexpected(there.error());
  return options.id;
}

Expected<std::string> Client::submit(std::string_view handler, BatchOptions options,
                                     std::span<const std::string_view> payloads) {
  if (options.id.empty()) options.id = random_batch_id();
  OutputBuffer out;
  write_batch_command(out, "SUBMIT", handler, options, 1 + payloads.size());
  CommandWriter writer(out);
  writer.argument("JOBS");
  for (const std::string_view payload : payloads) writer.argument(payload);
  auto sent = send(buffers_of(out), Repeat::kSafe, reply_deadline());
  if (!sent) return std::unexpected(std::move(sent.error()));
  return to_text(sent->reply);
}

Expected<std::string> Client::submit_range(std::string_view handler, BatchOptions options, std::int64_t low,
                                           std::int64_t high, std::optional<std::string_view> payload) {
  if (options.id.empty()) options.id = random_batch_id();
  OutputBuffer out;
  write_batch_command(out, "SUBMIT", handler, options, payload ? 4 : 3);
  CommandWriter writer(out);
  writer.argument("RANGE");
  writer.argument(low);
  writer.argument(high);
  if (payload) writer.argument(*payload);
  auto sent = send(buffers_of(out), Repeat::kSafe, reply_deadline());
  if (!sent) return std::unexpected(std::move(sent.error()));
  return to_text(sent->reply);
}

Expected<std::vector<JobResult>> Client::run(std::string_view handler, const BatchOptions& options,
                                             std::span<const std::string_view> payloads, Deadline deadline) {
  OutputBuffer out;
  write_batch_command(out, "RUN", handler, options, 1 + payloads.size());
  CommandWriter writer(out);
  writer.argument("JOBS");
  for (const std::string_view payload : payloads) writer.argument(payload);
  auto sent = send(buffers_of(out), Repeat::kNever, deadline);
  if (!sent) return std::unexpected(std::move(sent.error()));
  return to_job_results(sent->reply);
}

Expected<BatchStatus> Client::status(std::string_view id) { return as(call({"STATUS", id}), &to_status); }

Expected<BatchStatus> Client::wait(std::string_view id, Deadline deadline) {
  for (;;) {
    const std::string slice = std::to_string(slice_until(deadline).count());
    auto status =
        as(call(std::array<std::string_view, 3>{"WAIT", id, slice}, Repeat::kSafe, reply_deadline(deadline)),
           &to_status);
    if (!status || status->is_over() || Clock::now() >= deadline) return status;
  }
}

Expected<void> Client::results(std::string_view id, ResultsPosition& position, std::uint64_t count,
                               std::chrono::milliseconds block, const RowVisitor& visit, Passed passed,
                               Rows which) {
  return read_results(id, position, count, block, visit, passed, which,
                      deadline_in(options_.reply_timeout + block));
}

Expected<void> Client::read_results(std::string_view id, ResultsPosition& position, std::uint64_t count,
                                    std::chrono::milliseconds block, const RowVisitor& visit, Passed passed,
                                    Rows which, Deadline deadline) {
  const std::string from = std::to_string(position.cursor);
  // At least the rows that were visited already, and one more.
  const std::string rows = std::to_string(std::max<std::uint64_t>(count, position.shown.size() + 1));
  const std::string milliseconds = std::to_string(block.count());
  std::vector<std::string_view> command{"RESULTS", id, "FROM", from, "COUNT", rows};
  if (block.count() > 0) add(command, "BLOCK", milliseconds);
  if (passed == Passed::kDiscarded) command.push_back("DISCARD");
  if (which == Rows::kFailed) command.push_back("FAILED");
  OutputBuffer out;
  CommandWriter writer(out);
  writer.begin(command.size());
  for (const std::string_view argument : command) writer.argument(argument);

  proto::ResultsReply page;
  const auto sent = transact(buffers_of(out), Repeat::kSafe, deadline, [&](Deadline until) -> Expected<void> {
    std::vector<std::uint64_t>& shown = position.shown;
    std::ranges::sort(shown);
    const auto before = static_cast<std::ptrdiff_t>(shown.size());
    page = {};
    for (;;) {
      const auto status = connection_->reader().next_results(
          page, [&](std::uint64_t index, std::string_view state, std::string_view output) {
            if (std::binary_search(shown.begin(), shown.begin() + before, index)) return;
            shown.push_back(index);
            visit({index, state, output});
          });
      if (status == ReadStatus::kComplete && page.is_error) {
        ClientError error = refused(page.error);
        if (is_elsewhere(error.code)) return std::unexpected(std::move(error));
      }
      if (status == ReadStatus::kComplete) return {};
      if (status == ReadStatus::kError)
        return connection_->protocol_error(connection_->reader().error_message());
      if (auto more = connection_->receive(until, kReadBytes); !more) return more;
    }
  });
  if (!sent) return std::unexpected(sent.error());
  if (page.is_error) return std::unexpected(refused(page.error));
  if (page.cursor != 0) position.cursor = page.cursor;
  position.shown.clear();
  position.at_end = page.cursor == 0;
  return {};
}

Expected<void> Client::for_each_result(std::string_view id, const RowVisitor& visit, Deadline deadline) {
  ResultsPosition position;
  while (!position.at_end) {
    const auto slice = slice_until(deadline);
    if (auto read =
            read_results(id, position, kRowsAtOnce, slice, visit, Passed::kKept, Rows::kAll,
                         earlier(deadline_in(options_.reply_timeout + slice), reply_deadline(deadline)));
        !read)
      return read;
    if (!position.at_end && Clock::now() >= deadline) {
      return client_error(Kind::kTimeout, "batch " + std::string(id) + " was not over in the time given");
    }
  }
  return {};
}

Expected<std::vector<Reply>> Client::jobs(std::string_view id, std::span<const std::uint64_t> indexes) {
  return of_each_job("JOB", id, indexes);
}

Expected<std::vector<Reply>> Client::logs(std::string_view id, std::span<const std::uint64_t> indexes) {
  return of_each_job("LOG", id, indexes);
}

Expected<std::vector<Reply>> Client::of_each_job(std::string_view command, std::string_view id,
                                                 std::span<const std::uint64_t> indexes) {
  OutputBuffer out;
  CommandWriter writer(out);
  for (const std::uint64_t index : indexes) {
    writer.begin(3);
    writer.argument(command);
    writer.argument(id);
    writer.argument(std::to_string(index));
  }
  std::vector<Reply> replies;
  const auto sent =
      transact(buffers_of(out), Repeat::kSafe, reply_deadline(), [&](Deadline until) -> Expected<void> {
        replies.clear();
        while (replies.size() < indexes.size()) {
          auto reply = connection_->read(until);
          if (!reply) return std::unexpected(std::move(reply.error()));
          if (auto error = elsewhere(*reply)) return std::unexpected(*std::move(error));
          replies.push_back(std::move(*reply));
        }
        return {};
      });
  if (!sent) return std::unexpected(sent.error());
  return replies;
}

Expected<JobInfo> Client::job(std::string_view id, std::uint64_t index) {
  return as(call({"JOB", id, std::to_string(index)}), &to_job);
}

Expected<LogPart> Client::log(std::string_view id, std::uint64_t index, std::uint64_t from,
                              std::chrono::milliseconds block) {
  const std::string of = std::to_string(index);
  const std::string offset = std::to_string(from);
  const std::string milliseconds = std::to_string(block.count());
  std::vector<std::string_view> command{"LOG", id, of, "FROM", offset};
  if (block.count() > 0) add(command, "BLOCK", milliseconds);
  OutputBuffer out;
  CommandWriter writer(out);
  writer.begin(command.size());
  for (const std::string_view argument : command) writer.argument(argument);
  auto sent = send(buffers_of(out), Repeat::kSafe, deadline_in(options_.reply_timeout + block));
  if (!sent) return std::unexpected(std::move(sent.error()));
  return to_log_part(sent->reply);
}

Expected<std::vector<RunningJob>> Client::running(std::string_view id) {
  return as(id.empty() ? call({"RUNNING"}) : call({"RUNNING", id}), &to_running);
}

Expected<Explanation> Client::explain(std::string_view id) {
  return as(call({"EXPLAIN", id}), &to_explanation);
}

Expected<std::uint64_t> Client::cancel(std::string_view id) { return as(call({"CANCEL", id}), &to_count); }

Expected<std::optional<std::uint64_t>> Client::retry(std::string_view id,
                                                     std::span<const std::uint64_t> indexes) {
  std::vector<std::string> words;
  for (const std::uint64_t index : indexes) words.push_back(std::to_string(index));
  const auto command_of = [&](std::string_view round) {
    OutputBuffer out;
    CommandWriter writer(out);
    writer.begin(2 + (round.empty() ? 0 : 2) + words.size());
    writer.argument("RETRY");
    writer.argument(id);
    if (!round.empty()) {
      writer.argument("ROUND");
      writer.argument(round);
    }
    for (const std::string& word : words) writer.argument(word);
    return out;
  };
  const auto before = status(id);
  if (!before) {
    if (before.error().code != "NOPERM") return std::unexpected(before.error());
    // The user may change batches but not read them.
    const OutputBuffer out = command_of({});
    const auto sent = send(buffers_of(out), Repeat::kNever, reply_deadline());
    if (!sent) return std::unexpected(sent.error());
    const auto count = to_count(sent->reply);
    if (!count) return std::unexpected(count.error());
    return *count;
  }
  const OutputBuffer out = command_of(std::to_string(before->retry_rounds));
  const auto sent = send(buffers_of(out), Repeat::kSafe, reply_deadline());
  if (!sent) return std::unexpected(sent.error());
  const auto count = to_count(sent->reply);
  if (!count) return std::unexpected(count.error());
  if (*count != 0 || sent->attempts == 1) return *count;
  // Either nothing had failed, or an earlier one of the attempts was executed.
  const auto after = status(id);
  if (!after) return std::unexpected(after.error());
  if (after->retry_rounds != before->retry_rounds) return std::nullopt;
  return *count;
}

Expected<bool> Client::forget(std::string_view id) {
  const auto count = as(call({"FORGET", id}), &to_count);
  if (!count) return std::unexpected(count.error());
  return *count > 0;
}

Expected<void> Client::set_weight(std::string_view id, std::uint32_t weight) {
  return as_nothing(call({"WEIGHT", id, std::to_string(weight)}));
}

Expected<void> Client::set_slots(std::string_view id, std::uint32_t slots) {
  return as_nothing(call({"SLOTS", id, std::to_string(slots)}));
}

Expected<void> Client::pause(std::string_view id) { return as_nothing(call({"PAUSE", id})); }

Expected<void> Client::resume(std::string_view id) { return as_nothing(call({"RESUME", id})); }

Expected<BatchList> Client::list(std::string_view state, std::string_view match, std::uint64_t cursor,
                                 std::uint64_t count) {
  const std::string from = std::to_string(cursor);
  const std::string most = std::to_string(count);
  std::vector<std::string_view> command{"LIST"};
  if (!state.empty()) add(command, "STATE", state);
  if (!match.empty()) add(command, "MATCH", match);
  add(command, "CURSOR", from);
  add(command, "COUNT", most);
  return as(call(command), &to_batch_list);
}

Expected<std::vector<HandlerInfo>> Client::handlers() { return as(call({"HANDLERS"}), &to_handlers); }

Expected<std::vector<TenantInfo>> Client::tenants() { return as(call({"TENANTS"}), &to_tenants); }

Expected<void> Client::set_customer(std::string_view customer, const proto::CustomerSettings& changes) {
  std::vector<std::string> words{"CUSTOMER", "SET", std::string(customer)};
  const auto add_word = [&words](const char* name, std::string value) {
    words.emplace_back(name);
    words.push_back(std::move(value));
  };
  if (changes.weight) add_word("WEIGHT", std::to_string(*changes.weight));
  if (changes.slots) add_word("SLOTS", std::to_string(*changes.slots));
  if (changes.rate) add_word("RATE", to_string(*changes.rate));
  if (changes.max_jobs) add_word("MAXJOBS", std::to_string(*changes.max_jobs));
  const std::vector<std::string_view> views(words.begin(), words.end());
  return as_nothing(call(views));
}

Expected<CustomerInfo> Client::customer(std::string_view customer) {
  return as(call({"CUSTOMER", "GET", customer}), &to_customer);
}

Expected<bool> Client::delete_customer(std::string_view customer) {
  const auto count = as(call({"CUSTOMER", "DEL", customer}), &to_count);
  if (!count) return std::unexpected(count.error());
  return *count > 0;
}

Expected<CustomerList> Client::customers(std::string_view match, std::uint64_t cursor, std::uint64_t count) {
  const std::string from = std::to_string(cursor);
  const std::string most = std::to_string(count);
  std::vector<std::string_view> command{"CUSTOMER", "LIST"};
  if (!match.empty()) add(command, "MATCH", match);
  add(command, "CURSOR", from);
  add(command, "COUNT", most);
  return as(call(command), &to_customer_list);
}

Expected<WorkerList> Client::workers() { return as(call({"WORKERS"}), &to_workers); }

Expected<void> Client::ping() { return as_nothing(call({"PING"})); }

}  // namespace locksley::client
