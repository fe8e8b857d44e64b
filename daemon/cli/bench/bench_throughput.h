// One connection of `locksley bench` that measures throughput. Each has a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <vector>

#include "daemon/cli/bench/bench_plan.h"
#include "proto/clients/cpp/connection.h"

namespace locksley::cli {

// The counts of one connection.
struct ThroughputCount {
  std::uint64_t jobs = 0;
  std::uint64_t ok = 0;
  std::uint64_t output_bytes = 0;
  client::Deadline first_sent{};
  client::Deadline last_received{};
};

// One connection of `bench`: takes every n-th batch of the plan, for n connections, and keeps
// several batches on their way at once, so that the daemon parses one while it runs another and
// writes the results of a third. All on one connection, pipelined:
//
//   SUBMIT 0   SUBMIT 1   SUBMIT 2 ..  WAIT 0  RESULTS 0   SUBMIT 3   WAIT 1  RESULTS 1   FORGET 0  ..
//
// Used by one thread. run() blocks until all results are received; it fails as Connection does, and
// with kRefused or kProtocol if a batch is refused or its results are not complete.
class ThroughputConnection {
 public:
  ThroughputConnection(const BenchPlan& plan, unsigned number, client::Connection& connection)
      : plan_(plan), connection_(connection), next_batch_(number) {}

  client::Expected<ThroughputCount> run();
  // After run() has failed: the ids of the batches that it has submitted, or begun to submit, and
  // not forgotten.
  std::vector<std::string> left_ids() const;

 private:
  // Batches submitted and not yet read back: enough for the daemon never to wait for this client,
  // few enough for its queues. Guess.
  static constexpr std::size_t kBatchesUnderway = 4;
  // Of them, the batches whose results are already requested, so that the daemon sends the next
  // results without a round trip in between.
  static constexpr std::size_t kBatchesAsked = 2;
  static constexpr std::size_t kReadBytes = std::size_t{1} << 20;

  struct Batch {
    std::string id;
    std::uint64_t jobs = 0;
    bool is_asked = false;
    std::string head;  // of its SUBMIT; borrowed by the connection until the reply
    std::string ask;   // its WAIT and RESULTS, or one more RESULTS; borrowed in the same way
    RowCheck check;
  };
  enum class Kind { kSubmitted, kWaited, kRows, kForgotten };
  struct Expected {
    Kind kind;
    Batch* batch;  // null: kForgotten
  };

  void submit_next();
  void ask(Batch& batch);
  void fill();
  client::Expected<void> take_replies();
  client::Expected<void> take_page(Batch& batch);
  void forget(Batch& batch);

  const BenchPlan& plan_;
  client::Connection& connection_;
  std::uint64_t next_batch_;
  std::list<Batch> underway_;  // oldest first; a list, because expected_ points to its elements
  std::deque<std::string> forgets_;
  std::deque<Expected> expected_;
  proto::ResultsReply page_;
  ThroughputCount count_;
};

}  // namespace locksley::cli
