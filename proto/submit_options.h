#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/argument_list.h"

namespace locksley::proto {

// Which outputs of a batch are kept to be read by RESULTS.
enum class Keep : std::uint8_t { kAll, kFailures, kNone };
std::string_view to_string(Keep keep);

// Another batch that one waits for.
struct AfterBatch {
  std::string id;
  bool only_if_ok;  // AFTEROK
};

// The options of SUBMIT, OPEN and RUN. Absent ones have their default here or are empty.
struct BatchOptions {
  static constexpr std::size_t kMaxIdBytes = 128;
  static constexpr std::size_t kMaxNameBytes = 256;
  static constexpr std::uint32_t kMaxWeight = 1000;
  // Ten years: far beyond any use, far below any overflow.
  static constexpr std::chrono::milliseconds kMaxDuration = std::chrono::hours(24 * 3650);
  static constexpr std::uint64_t kMaxCount = 4294967295;  // of SLOTS and MAXFAILS
  static constexpr std::uint32_t kMaxRetries = 1000;
  // AFTER and AFTEROK, in all. Guess: each may have to be looked up on the disk, 20 us.
  static constexpr std::size_t kMaxAfter = 1'000;

  std::string id;  // empty: the daemon chooses
  std::string name;
  std::uint32_t weight = 1;
  std::optional<std::chrono::milliseconds> timeout;   // of one job; absent: as its handler has it
  std::optional<std::chrono::milliseconds> deadline;  // of the batch, from its acceptance
  Keep keep = Keep::kAll;
  std::optional<std::chrono::seconds> retain;      // of the finished batch; absent: as configured
  std::optional<std::chrono::milliseconds> delay;  // from its acceptance to the start of its first job
  std::vector<AfterBatch> after;                   // each id once, in the order of the words
  std::optional<std::uint32_t> retries;            // of a failed job; absent: as its handler has it
  std::optional<std::uint32_t> slots;              // most jobs at once
  std::optional<std::uint32_t> max_fails;          // failed jobs after which the rest is cancelled
  bool ephemeral = false;
  std::string trace;  // W3C traceparent
};

// `JOBS payload …`: the payloads are the command's arguments from `first` on. Take them over with
// arguments.drop_front(first).
struct JobsSource {
  std::size_t first;
};

// `RANGE low high [payload]`: one job for each integer in [low, high). low == high is a batch without jobs.
struct RangeSource {
  std::int64_t low;
  std::int64_t high;
  std::optional<std::string>
      payload;  // absent: the decimal alone; else each `{}` in it stands for the decimal

  std::uint64_t size() const { return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low); }
};

struct SubmitCommand {
  std::string handler;
  BatchOptions options;
  std::variant<JobsSource, RangeSource> source;
};

struct OpenCommand {
  std::string handler;
  BatchOptions options;
};

// Each takes the whole command, its name included, and copies what it keeps. The error is the text of the
// error reply without its '-': it names the option, what was expected and what was found. No side effects,
// any thread.
std::expected<SubmitCommand, std::string> parse_submit(const ArgumentList& arguments);
std::expected<OpenCommand, std::string> parse_open(const ArgumentList& arguments);
// As SUBMIT, but with JOBS alone; RETAIN is taken and has no effect.
std::expected<SubmitCommand, std::string> parse_run(const ArgumentList& arguments);

// Whether a batch may have this id: 1 to 128 printable ASCII characters, no space.
bool is_valid_batch_id(std::string_view id);
bool is_valid_traceparent(std::string_view text);

}  // namespace locksley::proto
