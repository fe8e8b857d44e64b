#include "daemon/cli/bench/bench_throughput.h"

#include "core/base/job.h"
#include "proto/clients/cpp/batch_id.h"
#include "proto/clients/cpp/client.h"
#include "proto/command_writer.h"

namespace locksley::cli {

using proto::CommandWriter;
using proto::OutputBuffer;
using proto::ReadStatus;

namespace {

// A daemon that says nothing for so long is not slow but broken.
constexpr std::chrono::minutes kPatience{5};

}  // namespace

client::Expected<ThroughputCount> ThroughputConnection::run() {
  count_.first_sent = now();
  fill();
  while (!expected_.empty()) {
    auto more = connection_.receive(now() + kPatience, kReadBytes);
    if (!more) return std::unexpected(std::move(more.error()));
    if (auto taken = take_replies(); !taken) return std::unexpected(std::move(taken.error()));
  }
  return count_;
}

std::vector<std::string> ThroughputConnection::left_ids() const {
  std::vector<std::string> ids;
  for (const Batch& batch : underway_) ids.push_back(batch.id);
  return ids;
}

void ThroughputConnection::submit_next() {
  Batch& batch = underway_.emplace_back();
  batch.jobs = plan_.jobs_of(next_batch_);
  next_batch_ += plan_.connections();
  proto::BatchOptions options;
  options.id = batch.id = client::random_batch_id();
  OutputBuffer out;
  client::write_batch_command(out, "SUBMIT", plan_.handler(), options, 1 + batch.jobs);
  CommandWriter(out).argument("JOBS");
  batch.head = out.to_string();
  connection_.send(batch.head);
  connection_.send(plan_.payloads(batch.jobs));
  expected_.push_back({Kind::kSubmitted, &batch});
}

void ThroughputConnection::ask(Batch& batch) {
  OutputBuffer out;
  CommandWriter writer(out);
  writer.command({"WAIT", batch.id});
  writer.command({"RESULTS", batch.id, "FROM", "0", "COUNT", std::to_string(batch.jobs)});
  batch.ask = out.to_string();
  batch.is_asked = true;
  connection_.send(batch.ask);
  expected_.push_back({Kind::kWaited, &batch});
  expected_.push_back({Kind::kRows, &batch});
}

void ThroughputConnection::fill() {
  while (underway_.size() < kBatchesUnderway && next_batch_ < plan_.batches()) submit_next();
  std::size_t asked = 0;
  for (auto batch = underway_.begin(); batch != underway_.end() && asked < kBatchesAsked; ++batch, ++asked) {
    if (!batch->is_asked) ask(*batch);
  }
}

client::Expected<void> ThroughputConnection::take_replies() {
  auto& reader = connection_.reader();
  proto::Reply reply;
  while (!expected_.empty()) {
    const auto [kind, batch] = expected_.front();
    const auto status =
        kind == Kind::kRows
            ? reader.next_results(page_, [&check = batch->check](
                                             std::uint64_t index, std::string_view state,
                                             std::string_view output) { check.add(index, state, output); })
            : reader.next(reply);
    if (status == ReadStatus::kNeedMore) return {};
    if (status == ReadStatus::kError) return connection_.protocol_error(reader.error_message());
    expected_.pop_front();
    if (kind == Kind::kRows) {
      if (auto taken = take_page(*batch); !taken) return taken;
    } else if (reply.is_error()) {
      return std::unexpected(client::refused(reply.text));
    } else if (kind == Kind::kForgotten) {
      forgets_.pop_front();
    }
  }
  return {};
}

client::Expected<void> ThroughputConnection::take_page(Batch& batch) {
  if (page_.is_error) return std::unexpected(client::refused(page_.error));
  count_.last_received = now();
  if (page_.cursor != 0) {
    // The daemon bounds a reply in bytes: the rest comes after the replies to the commands that
    // were sent meanwhile.
    OutputBuffer out;
    CommandWriter(out).command(
        {"RESULTS", batch.id, "FROM", std::to_string(page_.cursor), "COUNT", std::to_string(batch.jobs)});
    batch.ask = out.to_string();
    connection_.send(batch.ask);
    expected_.push_back({Kind::kRows, &batch});
    return {};
  }
  if (!batch.check.is_complete(batch.jobs)) {
    return connection_.protocol_error("of a batch of " + std::to_string(batch.jobs) + " jobs, " +
                                      std::to_string(batch.check.rows) + " results came, or an index twice");
  }
  count_.jobs += batch.jobs;
  count_.ok += batch.check.ok;
  count_.output_bytes += batch.check.output_bytes;
  forget(batch);
  fill();
  return {};
}

void ThroughputConnection::forget(Batch& batch) {
  OutputBuffer out;
  CommandWriter(out).command({"FORGET", batch.id});
  connection_.send(forgets_.emplace_back(out.to_string()));
  expected_.push_back({Kind::kForgotten, nullptr});
  underway_.remove_if([&batch](const Batch& one) { return &one == &batch; });
}

}  // namespace locksley::cli
