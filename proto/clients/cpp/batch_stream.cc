#include "proto/clients/cpp/batch_stream.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "proto/clients/cpp/backoff.h"
#include "proto/clients/cpp/batch_id.h"
#include "proto/clients/cpp/buffers.h"
#include "proto/clients/cpp/route.h"
#include "proto/command_writer.h"

namespace locksley::client {

using Kind = ClientError::Kind;
using proto::CommandWriter;
using proto::OutputBuffer;

// The pauses before a command that the daemon refused for the time being is sent again.
class BatchStream::Retries {
 public:
  Retries(Client& client, std::chrono::milliseconds full_patience)
      : client_(client), no_longer_full_(deadline_in(full_patience)) {}

  // Waits if the command may succeed later; otherwise, and once the patience is over, returns the
  // error.
  Expected<void> wait_after(ClientError error) {
    const bool is_full = error.code == "QUEUEFULL";
    if (!is_full && error.code != "DRAINING" && error.code != "STORE" && !is_elsewhere(error.code))
      return std::unexpected(std::move(error));
    if (is_full) {
      restarted_.reset();
    } else if (!restarted_) {
      restarted_ = deadline_in(kRestartPatience);
    }
    const auto pause = backoff_.next();
    const Deadline give_up = is_full ? no_longer_full_ : *restarted_;
    if (Clock::now() + pause >= give_up) return std::unexpected(std::move(error));
    return client_.sleep(pause);
  }

 private:
  Client& client_;
  Backoff backoff_{std::random_device{}()};
  const Deadline no_longer_full_;
  std::optional<Deadline> restarted_;
};

BatchStream::BatchStream(Client& client, std::string id, std::chrono::milliseconds full_patience)
    : client_(&client), id_(std::move(id)), full_patience_(full_patience) {}

Expected<BatchStream> BatchStream::open(Client& client, std::string_view handler, BatchOptions options,
                                        std::chrono::milliseconds full_patience) {
  if (options.id.empty()) options.id = random_batch_id();
  OutputBuffer out;
  write_batch_command(out, "OPEN", handler, options, 0);
  auto sent = client.send(buffers_of(out), Repeat::kSafe, deadline_in(client.options().reply_timeout));
  if (!sent && sent.error().code == "EXISTS") {
    return resume(client, handler, options, full_patience, std::move(sent.error()));
  }
  if (!sent) return std::unexpected(std::move(sent.error()));
  auto name = client.name_of(options);
  if (!name) return std::unexpected(std::move(name.error()));
  return BatchStream(client, std::move(*name), full_patience);
}

Expected<BatchStream> BatchStream::resume(Client& client, std::string_view handler,
                                          const BatchOptions& options,
                                          std::chrono::milliseconds full_patience, ClientError exists) {
  const auto id = client.name_of(options);
  if (!id) return std::unexpected(id.error());
  const auto status = client.status(*id);
  if (!status) return std::unexpected(status.error());
  if (status->handler != handler || status->jobs == 0) return std::unexpected(std::move(exists));
  BatchStream stream(client, *id, full_patience);
  stream.resumed_at_ = status->jobs;
  stream.exists_ = std::move(exists);
  return stream;
}

Expected<void> BatchStream::add(std::string_view payload) {
  if (acknowledged_ < resumed_at_) return pass_over(payload);
  if (pending() > 0 && pending_.size() + payload.size() > kChunkBytes) {
    if (auto sent = send_chunk(); !sent) return sent;
  }
  append(payload);
  if (pending() < kChunkJobs && pending_.size() < kChunkBytes) return {};
  return send_chunk();
}

void BatchStream::append(std::string_view payload) {
  const std::size_t before = pending_.size();
  CommandWriter(pending_).argument(payload);
  sizes_.push_back(pending_.size() - before);
}

Expected<void> BatchStream::pass_over(std::string_view payload) {
  if (acknowledged_ != 0) {
    ++acknowledged_;
    return {};
  }
  // The daemon refuses this first job if the batch was not streamed in.
  append(payload);
  auto sent = send_chunk();
  if (!sent && sent.error().code == "CLOSED") return std::unexpected(exists_);
  return sent;
}

Expected<void> BatchStream::flush() { return pending() == 0 ? Expected<void>{} : send_chunk(); }

Expected<void> BatchStream::send_chunk() {
  Retries retries(*client_, full_patience_);
  for (;;) {
    auto sent = send_once();
    if (sent) return {};
    auto go_on = sent.error().code == "OFFSET" ? find_place() : retries.wait_after(std::move(sent.error()));
    if (!go_on) return go_on;
  }
}

Expected<void> BatchStream::send_once() {
  OutputBuffer head;
  CommandWriter writer(head);
  writer.begin(3 + pending());
  writer.argument("ADDAT");
  writer.argument(id_);
  writer.argument(std::to_string(acknowledged_));
  std::vector<std::string_view> buffers = buffers_of(head);
  const std::vector<std::string_view> body = buffers_of(pending_);
  buffers.insert(buffers.end(), body.begin(), body.end());
  auto sent = client_->send(buffers, Repeat::kSafe, deadline_in(client_->options().reply_timeout));
  if (!sent) {
    ClientError error = std::move(sent.error());
    if (error.code == "NOBATCH") error.message = "the daemon no longer knows the batch: " + error.message;
    return std::unexpected(std::move(error));
  }
  const auto count = to_count(sent->reply);
  if (!count) return std::unexpected(count.error());
  if (*count < acknowledged_ + pending()) return lost(*count);
  drop_front(pending());
  return {};
}

Expected<void> BatchStream::find_place() {
  const auto status = client_->status(id_);
  if (!status) return std::unexpected(status.error());
  if (status->jobs < acknowledged_) return lost(status->jobs);
  // If the batch has all jobs of the chunk by now, the reply to the next ADDAT says so.
  if (status->jobs < acknowledged_ + pending()) drop_front(status->jobs - acknowledged_);
  return {};
}

std::unexpected<ClientError> BatchStream::lost(std::uint64_t jobs) const {
  return client_error(Kind::kProtocol, "batch " + id_ + ": the daemon had confirmed " +
                                           std::to_string(acknowledged_) + " jobs, and now it has " +
                                           std::to_string(jobs) + "; nothing more is added");
}

std::uint64_t BatchStream::longest_pending() const {
  return acknowledged_ + static_cast<std::uint64_t>(std::ranges::max_element(sizes_) - sizes_.begin());
}

void BatchStream::drop_front(std::size_t jobs) {
  const auto end = sizes_.begin() + static_cast<std::ptrdiff_t>(jobs);
  pending_.consume(std::accumulate(sizes_.begin(), end, std::size_t{0}));
  sizes_.erase(sizes_.begin(), end);
  acknowledged_ += jobs;
}

Expected<std::uint64_t> BatchStream::close() {
  if (auto sent = flush(); !sent) return std::unexpected(std::move(sent.error()));
  if (acknowledged_ < resumed_at_) {
    exists_.message = "EXISTS batch " + id_ + " has " + std::to_string(resumed_at_) +
                      " jobs, and the input has " + std::to_string(acknowledged_) +
                      ": it is not what the batch was begun with";
    return std::unexpected(exists_);
  }
  Retries retries(*client_, full_patience_);
  for (;;) {
    auto reply = client_->call({"CLOSE", id_});
    if (reply) return to_count(*reply);
    if (auto waited = retries.wait_after(std::move(reply.error())); !waited) {
      return std::unexpected(std::move(waited.error()));
    }
  }
}

}  // namespace locksley::client
