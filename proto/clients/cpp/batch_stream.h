// A batch that a client streams in, of any length, with one chunk of jobs in memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "proto/clients/cpp/client.h"
#include "proto/clients/cpp/error.h"
#include "proto/output_buffer.h"
#include "proto/submit_options.h"

namespace locksley::client {

// A batch that is streamed in: OPEN, then ADDAT of one chunk of jobs at a time, then CLOSE. Its
// jobs run while more are added, and the client holds at most one chunk of them.
//
// ADDAT says how many jobs the batch has before the chunk, so a chunk that is sent again after a
// broken connection, or that arrives late, is added once. The stream goes on after a restart of the
// daemon (DRAINING, a connection that breaks) and while the disk refuses writes (STORE), as long as
// its patience lasts.
//
// A stream can be resumed. If open() finds a batch with the ID of its options, for the same handler
// and with jobs, the caller adds all jobs from the first one on: the jobs that the batch has are
// passed over, and not compared.
//
// Owned by its creator and used by the thread that uses the client, which must outlive it. add(),
// flush() and close() block while a chunk is sent and while the daemon refuses it for the time
// being. If the stream is destroyed before close(), the batch stays open; the daemon closes it
// after its open_timeout. Errors of kind kProtocol: the batch has lost jobs that the daemon had
// confirmed. Code EXISTS: the batch was there before, and was not streamed in, or has more jobs
// than the caller added; the batch is unchanged.
class BatchStream {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
  static constexpr std::size_t kChunkJobs = 10'000;
  // For how long a chunk is retried that was refused with DRAINING or STORE. Guess: longer than a
  // restart; a disk that is full for longer needs a person.
  static constexpr std::chrono::minutes kRestartPatience{5};

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
  // Jobs that the daemon has confirmed, and jobs of a resumed batch that were passed over.
  std::uint64_t acknowledged() const { return acknowledged_; }
  std::size_t pending() const { return sizes_.size(); }  // jobs in the chunk
  // The index in the batch of the longest job of the chunk, which is not empty.
  std::uint64_t longest_pending() const;
  // How many jobs the batch had when the stream was opened.
  std::uint64_t resumed_at() const { return resumed_at_; }

 private:
  class Retries;

  BatchStream(Client& client, std::string id, std::chrono::milliseconds full_patience);
  // A stream of the batch that made OPEN fail with `exists`, if it can be continued; else that
  // error.
  static Expected<BatchStream> resume(Client& client, std::string_view handler,
                                      const proto::BatchOptions& options,
                                      std::chrono::milliseconds full_patience, ClientError exists);
  Expected<void> send_chunk();
  // Sends one ADDAT with the chunk.
  Expected<void> send_once();
  // After OFFSET: removes from the chunk the jobs that the batch has.
  Expected<void> find_place();
  // Passes over a job that a resumed batch has already.
  Expected<void> pass_over(std::string_view payload);
  void append(std::string_view payload);
  // Removes the first jobs of the chunk, which are confirmed.
  void drop_front(std::size_t jobs);
  std::unexpected<ClientError> lost(std::uint64_t jobs) const;

  Client* client_;
  std::string id_;
  std::chrono::milliseconds full_patience_;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t resumed_at_ = 0;
  ClientError exists_ = {};        // of OPEN, if the batch was there before
  proto::OutputBuffer pending_;    // the payloads of the next ADDAT, encoded
  std::deque<std::size_t> sizes_;  // of each payload, encoded
};

}  // namespace locksley::client
