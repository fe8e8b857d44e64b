// The commands of one snapshot of `locksley top`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cli/top/snapshot.h"
#include "proto/clients/cpp/error.h"
#include "proto/reply.h"

namespace locksley::client {
class Connection;
}

namespace locksley::cli {

// Takes snapshots of the daemon. The commands of a snapshot go out in a few pipelines, so that it
// costs only a few round trips, however far away the daemon is. Keeps how far it has read the
// results of the selected batch, in search of failures.
//
// Borrows the connection, used by one thread. Each call blocks until its replies are there,
// kPatience at most, and fails as Connection does, after which the connection is closed; a command
// that the daemon refuses is no failure: the snapshot has its error. Only a daemon that says that
// another one serves (is_elsewhere) is a failure.
class TopReader {
 public:
  explicit TopReader(client::Connection& connection) : connection_(connection) {}

  client::Expected<TopSnapshot> read_snapshot(const TopDemand& demand);
  // One command's reply, which may be an error.
  client::Expected<proto::Reply> ask(const std::vector<std::string>& command);

  // How many batches a snapshot lists: unfinished ones of each state, and the newest.
  static constexpr std::size_t kMostInState = 500;  // guess: more than a person scrolls through
  static constexpr std::size_t kNewest = 100;

 private:
  static constexpr std::chrono::seconds kPatience{30};  // a daemon that says nothing for so long is broken
  static constexpr int kMostPages = 8;  // of one list, which may come in short pages: bounds a snapshot
  static constexpr std::uint64_t kRowsAtOnce = 1000;

  using Command = std::vector<std::string>;
  client::Expected<std::vector<proto::Reply>> ask_all(const std::vector<Command>& commands);
  client::Expected<void> list_batches(TopSnapshot& snapshot);
  client::Expected<void> explain(const TopDemand& demand, TopSnapshot& snapshot);
  client::Expected<void> look_closely(const TopBatchName& batch, TopSnapshot& snapshot);
  client::Expected<void> look_for_failures(const TopBatchName& batch);

  client::Connection& connection_;
  TopDetail detail_;
  std::uint64_t cursor_ = 0;  // of its results
};

}  // namespace locksley::cli
