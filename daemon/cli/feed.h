#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/cli/options.h"
#include "daemon/cli/payload_source.h"
#include "proto/client/batch_stream.h"
#include "proto/client/client.h"

namespace locksley::cli {

// Brings the payloads of a command line to the daemon as one batch: input that fits one chunk by SUBMIT, a
// range by SUBMIT RANGE, anything longer, or that pauses, as a stream, whose jobs run while the rest arrives.
//
// Made and used by one thread. run() blocks for input, for the
// daemon, and for room in its queues; it fails as BatchStream and PayloadSource do, and then leaves the batch
// as it is.
class Feed {
 public:
  // The batch's id is arguments.batch.id, which must not be empty: so the batch can be cancelled whatever
  // happens. Borrows everything. `on_jobs` is called by run() as soon as the daemon knows the batch, and then
  // as its jobs grow, with their number.
  Feed(client::Client& client, const SubmitArguments& arguments, int input_fd, int stop_fd,
       std::function<void(std::uint64_t)> on_jobs);

  client::Expected<void> run();

 private:
  client::Expected<void> submit_range();
  client::Expected<void> stream(const std::vector<std::string>& first_chunk);

  client::Client& client_;
  const SubmitArguments& arguments_;
  PayloadSource source_;
  std::function<void(std::uint64_t)> on_jobs_;
};

}  // namespace locksley::cli
