// The payloads of failed jobs, for `locksley results --failed --payloads`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/names/path_check.h"
#include "daemon/cli/text/output.h"
#include "proto/clients/cpp/client.h"

namespace locksley::cli {

// Prints the payloads of failed jobs: for each row of RESULTS … FAILED it sends JOB, several at a
// time in one pipeline.
//
// Used by one thread, between two calls of the client. show() blocks for replies and for the
// output; it fails as the client does.
class FailedPayloads {
 public:
  struct Options {
    bool json = false;
    char separator = '\n';  // after each payload
    NameOf name_of = {};    // of the inputs, for messages and JSON
  };

  // Borrows all but the options.
  FailedPayloads(client::Client& client, const std::string& id, Output& output, Options options)
      : client_(client), id_(id), output_(output), options_(std::move(options)) {}

  // Adds a failed job; copies its row.
  void add(const client::ResultRow& row) {
    rows_.push_back({row.index, std::string(row.status), std::string(row.output)});
  }
  // Prints the payloads of the rows that were added since the last time. A payload that the daemon
  // does not keep is a line on standard error.
  client::Expected<void> show();

  std::uint64_t missing() const { return missing_; }  // payloads that the daemon does not keep
  // Payloads with a newline, that were printed with a newline after each.
  std::uint64_t split() const { return split_; }

 private:
  struct Row {
    std::uint64_t index;
    std::string status;
    std::string output;
  };

  void show_one(const Row& row, const std::optional<std::string>& payload);

  client::Client& client_;
  const std::string& id_;
  Output& output_;
  const Options options_;
  std::vector<Row> rows_;
  std::size_t largest_ = 0;  // payload so far
  std::uint64_t missing_ = 0;
  std::uint64_t split_ = 0;
};

}  // namespace locksley::cli
