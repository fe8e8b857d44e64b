#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/client/client.h"
#include "proto/client/error.h"
#include "proto/output_buffer.h"
#include "proto/submit_options.h"

namespace locksley::client {

// A batch that is streamed in: OPEN, then ADD of a bounded number of jobs at a time, then CLOSE. Its jobs run
// while more are added, and the client holds one chunk of them at most.
//
// Owned by its creator and used by the thread that uses the client, which must outlive it. add() and flush()
// block while a chunk is sent and, if the daemon's queues are full, until there is room or `full_patience` is
// over. Destroyed before close(), it leaves the batch open: the daemon closes it after its open_timeout.
//
// ADD is not a command that may be repeated blindly. After a broken connection the stream asks how many jobs
// the daemon has, and sends the chunk again only if that is what was acknowledged before; if it is neither
// that nor that and the chunk, it fails with kProtocol and says both numbers. (A chunk that the daemon still
// has unread from the broken connection when it answers that question would be counted too late; a daemon
// that reads its connections promptly makes that a matter of microseconds, and the job count that close()
// returns shows it.)
class BatchStream {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
  static constexpr std::size_t kChunkJobs = 10'000;

  // `full_patience`: how long a chunk that was refused with QUEUEFULL is tried again.
  static Expected<BatchStream> open(Client& client, std::string_view handler, BatchOptions options,
                                    std::chrono::milliseconds full_patience);

  // Takes over one job; sends when a chunk is full.
  Expected<void> add(std::string_view payload);
  // Sends what is held back.
  Expected<void> flush();
  // Sends what is held back and closes the batch; returns how many jobs it has.
  Expected<std::uint64_t> close();

  const std::string& id() const { return id_; }
  std::uint64_t acknowledged() const { return acknowledged_; }  // jobs the daemon has said it has
  std::size_t pending() const { return pending_jobs_; }         // jobs held back

 private:
  BatchStream(Client& client, std::string id, std::chrono::milliseconds full_patience);
  Expected<void> send_chunk();
  // After a broken connection: true if the daemon has the chunk, false if it has not.
  Expected<bool> arrived();

  Client* client_;
  std::string id_;
  std::chrono::milliseconds full_patience_;
  std::uint64_t acknowledged_ = 0;
  proto::OutputBuffer pending_;  // the payloads of the next ADD, encoded
  std::size_t pending_jobs_ = 0;
};

}  // namespace locksley::client
