#include "proto/clients/cpp/batch_stream.h"

#include <random>
#include <vector>

#include "proto/clients/cpp/backoff.h"
#include "proto/clients/cpp/batch_id.h"
#include "proto/clients/cpp/buffers.h"
#include "proto/command_writer.h"

namespace locksley::client {

using Kind = ClientError::Kind;
using proto::CommandWriter;
using proto::OutputBuffer;

BatchStream::BatchStream(Client& client, std::string id, std::chrono::milliseconds full_patience)
    : client_(&client), id_(std::move(id)), full_patience_(full_patience) {}

Expected<BatchStream> BatchStream::open(Client& client, std::string_view handler, BatchOptions options,
                                        std::chrono::milliseconds full_patience) {
  if (options.id.empty()) options.id = random_batch_id();
  OutputBuffer out;
  write_batch_command(out, "OPEN", handler, options, 0);
  auto sent = client.send(buffers_of(out), Repeat::kSafe, deadline_in(client.options().reply_timeout));
  if (!sent) return std::unexpected(std::move(sent.error()));
  auto id = to_text(sent->reply);
  if (!id) return std::unexpected(std::move(id.error()));
  return BatchStream(client, std::move(*id), full_patience);
}

Expected<void> BatchStream::add(std::string_view payload) {
  if (pending_jobs_ > 0 && pending_.size() + payload.size() > kChunkBytes) {
    if (auto sent = send_chunk(); !sent) return sent;
  }
  CommandWriter(pending_).argument(payload);
  ++pending_jobs_;
  if (pending_jobs_ < kChunkJobs && pending_.size() < kChunkBytes) return {};
  return send_chunk();
}

Expected<void> BatchStream::flush() { return pending_jobs_ == 0 ? Expected<void>{} : send_chunk(); }

Expected<void> BatchStream::send_chunk() {
  OutputBuffer head;
  CommandWriter writer(head);
  writer.begin(2 + pending_jobs_);
  writer.argument("ADD");
  writer.argument(id_);
  std::vector<std::string_view> buffers = buffers_of(head);
  const std::vector<std::string_view> body = buffers_of(pending_);
  buffers.insert(buffers.end(), body.begin(), body.end());

  Backoff backoff(std::random_device{}());
  const Deadline no_longer_full = deadline_in(full_patience_);
  const Deadline reconnected = deadline_in(client_->options().patience);
  for (;;) {
    auto sent = client_->send(buffers, Repeat::kNever, deadline_in(client_->options().reply_timeout));
    std::uint64_t now_there = acknowledged_ + pending_jobs_;
    if (sent) {
      auto count = to_count(sent->reply);
      if (!count) return std::unexpected(std::move(count.error()));
      now_there = *count;
    } else if (sent.error().kind == Kind::kUnavailable) {
      const auto known = arrived();
      if (!known) return std::unexpected(known.error());
      if (!*known) {
        if (Clock::now() >= reconnected) return std::unexpected(std::move(sent.error()));
        if (auto waited = client_->sleep(backoff.next()); !waited) return waited;
        continue;
      }
    } else if (sent.error().code == "QUEUEFULL") {
      const auto pause = backoff.next();
      if (Clock::now() + pause >= no_longer_full) return std::unexpected(std::move(sent.error()));
      if (auto waited = client_->sleep(pause); !waited) return waited;
      continue;
    } else {
      return std::unexpected(std::move(sent.error()));
    }
    acknowledged_ = now_there;
    pending_.consume(pending_.size());
    pending_jobs_ = 0;
    return {};
  }
}

Expected<bool> BatchStream::arrived() {
  const auto status = client_->status(id_);
  if (!status) {
    ClientError error = status.error();
    if (error.code == "NOBATCH") {
      error.message = "the connection broke, and the daemon no longer knows the batch: " + error.message;
    }
    return std::unexpected(std::move(error));
  }
  if (status->jobs == acknowledged_) return false;
  if (status->jobs == acknowledged_ + pending_jobs_) return true;
  return client_error(Kind::kProtocol, "batch " + id_ + ": the connection broke while " +
                                           std::to_string(pending_jobs_) + " jobs were added to " +
                                           std::to_string(acknowledged_) + ", and now it has " +
                                           std::to_string(status->jobs) + "; nothing more is added");
}

Expected<std::uint64_t> BatchStream::close() {
  if (auto sent = flush(); !sent) return std::unexpected(std::move(sent.error()));
  auto reply = client_->call({"CLOSE", id_});
  if (!reply) return std::unexpected(std::move(reply.error()));
  return to_count(*reply);
}

}  // namespace locksley::client
