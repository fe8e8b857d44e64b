#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/clients/cpp/client.h"
#include "proto/clients/cpp/error.h"
#include "proto/output_buffer.h"
#include "proto/submit_options.h"

namespace locksley::client {

// A batch that is streamed in: OPEN, then ADD of one chunk of jobs at a time, then CLOSE. Its jobs run while
// more are added, and the client holds at most one chunk of them.
//
// Owned by its creator and used by the thread that uses the client, which must outlive it. add() and
// flush() block while a chunk is sent and, if the daemon's queues are full, until there is room or
// `full_patience` has passed. If it is destroyed before close(), the batch stays open; the daemon closes
// it after its open_timeout.
//
// ADD is not idempotent. After a broken connection the stream asks the daemon how many jobs the batch has. If
// it has only the acknowledged jobs, the stream sends the chunk again; if it has the chunk as well, the chunk
// had arrived. Any other number is an error of kind kProtocol that states both numbers. One case remains: the
// daemon may read the chunk from the broken connection only after it has answered. A daemon that reads its
// connections promptly makes that a matter of microseconds, and close() then returns a larger number of jobs.
class BatchStream {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
  static constexpr std::size_t kChunkJobs = 10'000;

  // `full_patience`: for how long a chunk that was refused with QUEUEFULL is retried.
  static Expected<BatchStream> open(Client& client, std::string_view handler, BatchOptions options,
                                    std::chrono::milliseconds full_patience);

  // Adds one job to the chunk; sends the chunk when it is full.
  Expected<void> add(std::string_view payload);
  // Sends the chunk.
  Expected<void> flush();
  // Sends the chunk and closes the batch; returns how many jobs it has.
  Expected<std::uint64_t> close();

  const std::string& id() const { return id_; }
  std::uint64_t acknowledged() const { return acknowledged_; }  // jobs that the daemon has confirmed
  std::size_t pending() const { return pending_jobs_; }         // jobs in the chunk

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
