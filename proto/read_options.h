// The arguments of the other commands with options (RESULTS, LIST, WAIT, RETRY, CUSTOMER SET and
// others) as structs, and the parsers that fill them.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/argument_list.h"
#include "proto/customer_settings.h"

namespace locksley::proto {

// RESULTS id [FROM cursor] [COUNT n] [BLOCK ms] [DISCARD] [FAILED]
struct ResultsCommand {
  static constexpr std::uint64_t kDefaultCount = 1000;
  static constexpr std::uint64_t kMaxCount = 1'000'000;

  std::string_view id;
  std::uint64_t from = 0;
  std::uint64_t count = kDefaultCount;
  // Absent: reply at once. 0: wait for a result without limit, as in Redis.
  std::optional<std::chrono::milliseconds> block;
  bool discards = false;     // the rows before `from`
  bool only_failed = false;  // only rows that are not ok
};

// LIST [STATE state] [MATCH glob] [FOR customer] [HANDLER name] [CURSOR c] [COUNT n]
struct ListCommand {
  static constexpr std::uint64_t kDefaultCount = 100;
  static constexpr std::uint64_t kMaxCount = 10'000;

  std::string state;                         // lower case; empty: any
  std::optional<std::string_view> match;     // against id and name
  std::optional<std::string_view> customer;  // as the client wrote it; empty: the customer without a name
  std::optional<std::string_view> handler;
  std::uint64_t cursor = 0;
  std::uint64_t count = kDefaultCount;
};

// WAIT id [timeout-ms]
struct WaitCommand {
  std::string_view id;
  std::optional<std::chrono::milliseconds> timeout;  // absent also for 0: no timeout
};

// WEIGHT id n
struct WeightCommand {
  std::string_view id;
  std::uint32_t weight;
};

// SLOTS id n
struct SlotsCommand {
  std::string_view id;
  std::uint32_t slots;  // 0: no cap
};

// CUSTOMER SET name [WEIGHT n] [SLOTS n] [RATE n/s] [MAXJOBS n]
struct CustomerSetCommand {
  std::string_view name;  // as the client wrote it; empty: the customer without a name
  CustomerSettings changes;
};

// CUSTOMER LIST [MATCH glob] [CURSOR c] [COUNT n]
struct CustomerListCommand {
  std::optional<std::string_view> match;
  std::uint64_t cursor = 0;
  std::uint64_t count = ListCommand::kDefaultCount;
};

// ADDAT id n payload [payload ...]
struct AddatCommand {
  std::string_view id;
  std::uint64_t at;  // how many jobs the batch has before these
};

// RETRY id [ROUND n] [index ...]
struct RetryCommand {
  static constexpr std::size_t kMaxIndexes = 1000;

  std::string_view id;
  std::vector<std::uint64_t> indexes = {};  // empty: all failed jobs
  std::optional<std::uint64_t> round;       // absent: whatever `retry_rounds` is
};

// JOB id index
struct JobCommand {
  std::string_view id;
  std::uint64_t index = 0;
};

// LOG id index [FROM offset] [BLOCK ms]
struct LogCommand {
  std::string_view id;
  std::uint64_t index = 0;
  std::uint64_t from = 0;
  std::optional<std::chrono::milliseconds> block = {};  // as in ResultsCommand
};

// RUNNING [id] [COUNT n]
struct RunningCommand {
  static constexpr std::uint64_t kDefaultCount = 1000;
  static constexpr std::uint64_t kMaxCount = 10'000;

  std::optional<std::string_view> id = {};  // absent: all batches
  std::uint64_t count = kDefaultCount;
};

// Parse a whole command, its name included. Views refer to `arguments`. The error is the text of
// the error reply without its '-'. The caller has checked the number of arguments against the
// command table. No side effects, any thread.
std::expected<ResultsCommand, std::string> parse_results(const ArgumentList& arguments);
std::expected<ListCommand, std::string> parse_list(const ArgumentList& arguments);
std::expected<WaitCommand, std::string> parse_wait(const ArgumentList& arguments);
std::expected<WeightCommand, std::string> parse_weight(const ArgumentList& arguments);
std::expected<SlotsCommand, std::string> parse_slots(const ArgumentList& arguments);
std::expected<CustomerSetCommand, std::string> parse_customer_set(const ArgumentList& arguments);
std::expected<CustomerListCommand, std::string> parse_customer_list(const ArgumentList& arguments);
std::expected<AddatCommand, std::string> parse_addat(const ArgumentList& arguments);
std::expected<RetryCommand, std::string> parse_retry(const ArgumentList& arguments);
std::expected<JobCommand, std::string> parse_job(const ArgumentList& arguments);
std::expected<LogCommand, std::string> parse_log(const ArgumentList& arguments);
std::expected<RunningCommand, std::string> parse_running(const ArgumentList& arguments);

}  // namespace locksley::proto
