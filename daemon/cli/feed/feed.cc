#include "daemon/cli/feed/feed.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/cli/text/number_text.h"
#include "proto/clients/cpp/batch_id.h"

namespace locksley::cli {

using client::BatchStream;
using client::Expected;
using Outcome = PayloadSource::Outcome;

namespace {

// After a pause of this length the jobs that were read so far are sent, so that a slow producer's
// jobs start at once. Guess: shorter than a person notices.
constexpr std::chrono::milliseconds kPause{100};

// A stream waits for room in the daemon's queues, in practice without a limit: that is its
// back-pressure.
constexpr std::chrono::milliseconds kFullPatience = std::chrono::hours(24 * 365);

}  // namespace

Feed::Feed(client::Client& client, const SubmitArguments& arguments, int input_fd, int stop_fd, Events events,
           Payloads payloads)
    : client_(client),
      arguments_(arguments),
      source_(arguments.payloads, input_fd, stop_fd),
      payloads_(std::move(payloads)),
      events_(std::move(events)),
      name_(client::likely_name(arguments.batch)) {}

Expected<void> Feed::look_whether_it_is_there() {
  if (arguments_.has_new_id) return {};
  const auto status = client_.status(name_);
  // A refusal is no failure here: there is no such batch, or the user may not ask for STATUS. If
  // SUBMIT is refused as well, its error says more.
  if (!status && status.error().kind != client::ClientError::Kind::kRefused)
    return std::unexpected(status.error());
  if (status) owner_before_ = status->tenant;
  return {};
}

Expected<void> Feed::accepted() {
  auto name = client_.name_of(arguments_.batch);
  if (!name) return std::unexpected(std::move(name.error()));
  name_ = *std::move(name);
  if (!owner_before_) return {};
  // For an admin, look_whether_it_is_there() may have found another user's batch of this id.
  const auto status = client_.status(name_);
  was_there_ = status && status->tenant == *owner_before_;
  return {};
}

Expected<bool> Feed::is_there_and_closed() {
  if (arguments_.has_new_id) return false;
  if (!is_there_and_closed_) {
    const auto status = client_.status(name_);
    if (!status && status.error().kind != client::ClientError::Kind::kRefused)
      return std::unexpected(status.error());
    is_there_and_closed_ = status && status->state != "open";
  }
  return *is_there_and_closed_;
}

Expected<Outcome> Feed::next_payload(std::string& payload) {
  if (payloads_) return payloads_(payload, kPause);
  auto outcome = source_.next(payload, kPause);
  if (outcome && *outcome == Outcome::kRecord && arguments_.payloads.files && events_.on_file)
    events_.on_file(source_.file());
  return outcome;
}

Expected<void> Feed::run() {
  if (arguments_.payloads.range) return submit_range();
  std::vector<std::string> chunk;
  std::optional<client::ClientError> exists;  // of SUBMIT
  std::size_t bytes = 0;
  std::string payload;
  while (chunk.size() < BatchStream::kChunkJobs && bytes < BatchStream::kChunkBytes) {
    const auto outcome = next_payload(payload);
    if (!outcome) return std::unexpected(outcome.error());
    if (*outcome == Outcome::kIdle) {
      if (chunk.empty()) continue;
      const auto is_closed = is_there_and_closed();
      if (!is_closed) return std::unexpected(is_closed.error());
      if (*is_closed) continue;
      break;
    }
    // SUBMIT needs a job; a stream may stay empty, and an empty input is an empty batch.
    if (*outcome == Outcome::kEnd && chunk.empty()) break;
    if (*outcome == Outcome::kEnd) {
      if (auto looked = look_whether_it_is_there(); !looked) return looked;
      const std::vector<std::string_view> views(chunk.begin(), chunk.end());
      has_sent_ = true;
      const auto id = client_.submit(arguments_.handler, arguments_.batch, views);
      // Perhaps this input has begun the batch as a stream: then stream() continues it.
      if (!id && id.error().code == "EXISTS") {
        exists = id.error();
        break;
      }
      if (!id) {
        const auto longest = std::ranges::max_element(chunk, {}, &std::string::size) - chunk.begin();
        return refused(id.error(), static_cast<std::uint64_t>(longest));
      }
      if (auto named = accepted(); !named) return named;
      events_.on_jobs(chunk.size());
      return {};
    }
    bytes += payload.size();
    chunk.push_back(std::move(payload));
    payload.clear();
  }
  return stream(chunk, exists);
}

Expected<void> Feed::submit_range() {
  if (auto looked = look_whether_it_is_there(); !looked) return looked;
  const auto [low, high] = *arguments_.payloads.range;
  const auto& words = arguments_.payloads.arguments;
  const auto pattern = words.empty() ? std::nullopt : std::optional<std::string_view>(words[0]);
  has_sent_ = true;
  const auto id = client_.submit_range(arguments_.handler, arguments_.batch, low, high, pattern);
  if (!id) return std::unexpected(id.error());
  if (auto named = accepted(); !named) return named;
  events_.on_jobs(static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low));
  return {};
}

void Feed::on_resumed(std::uint64_t jobs) {
  std::fprintf(stderr, "locksley: batch %s has %s jobs already: they are not sent again\n", name_.c_str(),
               with_commas(jobs).c_str());
  events_.on_jobs(jobs);
}

Expected<void> Feed::stream(const std::vector<std::string>& first_chunk,
                            const std::optional<client::ClientError>& exists) {
  has_sent_ = true;
  auto stream = BatchStream::open(client_, arguments_.handler, arguments_.batch, kFullPatience);
  if (!stream) return std::unexpected(std::move(stream.error()));
  name_ = stream->id();
  auto sent = send_all(*stream, first_chunk);
  // The batch is no stream of this input: the error of SUBMIT says what differs.
  if (!sent && exists && sent.error().code == "EXISTS" && stream->acknowledged() == 0)
    return std::unexpected(*exists);
  if (!sent && stream->pending() != 0) return refused(std::move(sent.error()), stream->longest_pending());
  return sent;
}

std::unexpected<client::ClientError> Feed::refused(client::ClientError error, std::uint64_t longest) {
  // TOOBIG may also mean that the batch has too many jobs: then no payload is too long.
  if (error.code == "TOOBIG" && error.message.contains("bytes of a payload")) {
    too_long_ = longest;
    if (!payloads_) error.message = "job " + std::to_string(longest) + ": " + error.message;
  }
  return std::unexpected(std::move(error));
}

Expected<void> Feed::send_all(BatchStream& stream, const std::vector<std::string>& first_chunk) {
  if (stream.resumed_at() == 0) events_.on_jobs(0);
  for (const std::string& job : first_chunk) {
    if (auto added = stream.add(job); !added) return added;
    // Only after the first job is it known whether the batch is a stream that can be continued.
    if (stream.resumed_at() != 0 && &job == &first_chunk.front()) on_resumed(stream.resumed_at());
  }
  if (auto sent = stream.flush(); !sent) return sent;
  std::string payload;
  for (;;) {
    if (stream.acknowledged() >= stream.resumed_at()) events_.on_jobs(stream.acknowledged());
    const auto outcome = next_payload(payload);
    if (!outcome) return std::unexpected(outcome.error());
    if (*outcome == Outcome::kEnd) break;
    const bool is_idle = *outcome == Outcome::kIdle;
    if (events_.on_idle && !is_idle) events_.on_idle(false);
    const auto sent = is_idle ? stream.flush() : stream.add(payload);
    if (!sent) return sent;
    if (events_.on_idle && is_idle) events_.on_idle(true);
  }
  const auto total = stream.close();
  if (!total) return std::unexpected(total.error());
  was_there_ = stream.resumed_at() != 0 && stream.resumed_at() == *total;
  events_.on_jobs(*total);
  return {};
}

FeedThread::FeedThread(const Context& context, const SubmitArguments& arguments, PassingNames* names)
    : thread_([this, &context, &arguments, names] { run(context, arguments, names, {}); }) {}

FeedThread::FeedThread(const Context& context, const SubmitArguments& arguments, MakePayloads make_payloads)
    : thread_([this, &context, &arguments, make = std::move(make_payloads)] {
        run(context, arguments, nullptr, make);
      }) {}

void FeedThread::run(const Context& context, const SubmitArguments& arguments, PassingNames* names,
                     const MakePayloads& make_payloads) {
  auto client = context.connect(stop_.fd(), Context::kFeedPatience);
  if (client) {
    const Feed* begun = nullptr;
    const auto on_jobs = [this, &begun](std::uint64_t jobs) {
      jobs_ = jobs;
      if (!begun_) name_ = begun->name();
      begun_ = true;
      settled_.raise();
    };
    Feed::Events events{.on_jobs = on_jobs, .on_idle = [this](bool is_idle) { awaits_input_ = is_idle; }};
    if (names != nullptr) events.on_file = [names](const std::string& name) { names->add(name); };
    Feed feed(*client, arguments, STDIN_FILENO, stop_.fd(), std::move(events),
              make_payloads ? make_payloads(stop_.fd()) : Payloads());
    begun = &feed;
    if (auto fed = feed.run(); !fed) error_ = std::move(fed.error());
    was_there_ = feed.was_there();
    has_sent_ = feed.has_sent();
    too_long_ = feed.too_long();
  } else {
    error_ = std::move(client.error());
  }
  over_ = true;
  settled_.raise();
}

void FeedThread::stop() {
  stop_.raise();
  if (thread_.joinable()) thread_.join();
}

}  // namespace locksley::cli
