// The options of a batch: the struct that holds them, and the one table that describes them. The
// parser of SUBMIT, OPEN and RUN, COMMAND DOCS, the client library and the command line all read
// this table; README.md says how to add an option. Plain values and pure functions: any thread, and
// nothing blocks.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace locksley::proto {

// Which outputs of a batch are kept for RESULTS.
enum class Keep : std::uint8_t { kAll, kFailures, kNone };
inline constexpr Keep kKeeps[] = {Keep::kAll, Keep::kFailures, Keep::kNone};
std::string_view to_string(Keep keep);

// A batch that another batch waits for.
struct AfterBatch {
  std::string id;
  bool only_if_ok;  // AFTEROK: the waiting batch is cancelled unless every job of this one is ok

  friend bool operator==(const AfterBatch&, const AfterBatch&) = default;
};

// The options of SUBMIT, OPEN and RUN. An option that was not given has its default here or is
// empty.
struct BatchOptions {
  static constexpr std::size_t kMaxIdBytes = 128;
  static constexpr std::size_t kMaxNameBytes = 256;
  static constexpr std::size_t kMaxCustomerBytes = 128;
  static constexpr std::uint32_t kMaxWeight = 1000;
  // Ten years: far longer than any use, far below any overflow.
  static constexpr std::chrono::milliseconds kMaxDuration = std::chrono::hours(24 * 3650);
  static constexpr std::uint64_t kMaxCount = 4294967295;  // of SLOTS and MAXFAILS
  static constexpr std::uint32_t kMaxRetries = 1000;
  // AFTER and AFTEROK together. Guess: the daemon may have to look up each named batch on the disk,
  // at 20 us.
  static constexpr std::size_t kMaxAfter = 1'000;

  std::string id;  // empty: the daemon chooses
  std::string name;
  std::string customer;  // as the client wrote it (an admin: user/name); empty: the customer without a name
  std::uint32_t weight = 1;
  std::optional<std::chrono::milliseconds> timeout;   // of one job; absent: the handler's
  std::optional<std::chrono::milliseconds> deadline;  // of the batch, from its acceptance
  std::optional<std::chrono::milliseconds> delay;     // from its acceptance to the start of its first job
  std::vector<AfterBatch> after;                      // each id once, in the order of the command
  std::optional<std::uint32_t> retries;               // of a failed job; absent: the handler's
  Keep keep = Keep::kAll;
  std::optional<std::chrono::seconds> retain;  // of the finished batch; absent: as configured
  std::optional<std::uint32_t> slots;          // most jobs at once
  std::optional<std::uint32_t> max_fails;      // failed jobs after which the rest is cancelled
  bool ephemeral = false;
  std::string trace;  // W3C traceparent

  friend bool operator==(const BatchOptions&, const BatchOptions&) = default;
};

// True for 1 to 128 printable ASCII characters without a space.
bool is_valid_batch_id(std::string_view id);
// True for at most 256 bytes without control characters.
bool is_valid_batch_name(std::string_view name);
// True for 1 to 128 printable ASCII characters without a space.
bool is_valid_customer(std::string_view name);
// True for a valid customer: a name, or user/name with a user of at most 64 characters.
bool is_valid_customer_text(std::string_view text);
// True for version 00 of https://www.w3.org/TR/trace-context/.
bool is_valid_traceparent(std::string_view text);

// The kinds of options. Each says into which member a value goes and which values are allowed.

struct TextValue {
  std::string BatchOptions::* member;  // empty: not given
  bool (*is_valid)(std::string_view);
  std::string_view expected;  // completes "option 'ID' needs …"
};

// `Member`: std::uint32_t or std::optional<std::uint32_t>.
template <class Member>
struct NumberValue {
  Member BatchOptions::* member;
  std::uint64_t least;
  std::uint64_t most;
};

// `Unit`: the unit on the wire, milliseconds or seconds. The command line takes texts such as 10s.
template <class Unit>
struct DurationValue {
  std::optional<Unit> BatchOptions::* member;
  std::uint64_t least;
  std::uint64_t most;
};

struct KeepValue {
  Keep BatchOptions::* member;
};

// The word alone, without a value after it.
struct FlagValue {
  bool BatchOptions::* member;
};

// The id of a batch to wait for. The only kind that a command may repeat.
struct AfterValue {
  std::vector<AfterBatch> BatchOptions::* member;
  bool only_if_ok;
};

using OptionValue =
    std::variant<TextValue, NumberValue<std::uint32_t>, NumberValue<std::optional<std::uint32_t>>,
                 DurationValue<std::chrono::milliseconds>, DurationValue<std::chrono::seconds>, KeepValue,
                 FlagValue, AfterValue>;

// One row of the table.
struct BatchOption {
  std::string_view name;        // upper case; the parser accepts either case
  std::string_view value_name;  // in COMMAND DOCS
  std::string_view flag;        // of the command line, without its dashes
  std::string_view help;        // for --help: one sentence without a full stop
  OptionValue value;
};

namespace internal {

inline constexpr std::uint64_t kMaxMilliseconds = BatchOptions::kMaxDuration.count();
inline constexpr std::uint64_t kMaxSeconds = kMaxMilliseconds / 1000;
inline constexpr std::string_view kIdExpected = "1 to 128 printable ASCII characters without spaces";
inline constexpr std::string_view kCustomerExpected = kIdExpected;

}  // namespace internal

// The table. Its order is that of COMMAND DOCS, of --help and of the words that the client library
// sends.
// clang-format off: a table, two lines a row
inline constexpr auto kBatchOptions = std::to_array<BatchOption>({
    {"ID", "id", "id", "Id of the batch; submitting it again with the same id does no harm; default: a random one",
     TextValue{&BatchOptions::id, is_valid_batch_id, internal::kIdExpected}},
    {"NAME", "text", "name", "Name of the batch for people",
     TextValue{&BatchOptions::name, is_valid_batch_name, "at most 256 bytes without control characters"}},
    {"FOR", "customer", "for", "The customer for whom the jobs are: customers of a user share worker time by their weights",
     TextValue{&BatchOptions::customer, is_valid_customer_text, internal::kCustomerExpected}},
    {"WEIGHT", "weight", "weight", "Share relative to the customer's other batches, 1 to 1000",
     NumberValue{&BatchOptions::weight, 1, BatchOptions::kMaxWeight}},
    {"TIMEOUT", "timeout-ms", "timeout", "Longest time for one job; default: the handler's",
     DurationValue{&BatchOptions::timeout, 1, internal::kMaxMilliseconds}},
    {"DEADLINE", "deadline-ms", "deadline", "Cancel all jobs that have not started after this time",
     DurationValue{&BatchOptions::deadline, 1, internal::kMaxMilliseconds}},
    {"DELAY", "delay-ms", "delay", "Start no job before this time has passed",
     DurationValue{&BatchOptions::delay, 1, internal::kMaxMilliseconds}},
    {"AFTER", "after-id", "after", "Start when that batch is over; may be repeated",
     AfterValue{&BatchOptions::after, false}},
    {"AFTEROK", "afterok-id", "afterok", "Same as --after, but cancel this batch if a job of that batch was not ok",
     AfterValue{&BatchOptions::after, true}},
    {"RETRIES", "retries", "retries", "Retry a failed job up to this many times; default: the handler's",
     NumberValue{&BatchOptions::retries, 0, BatchOptions::kMaxRetries}},
    {"KEEP", "keep", "keep", "Which outputs are kept: all, failures, none",
     KeepValue{&BatchOptions::keep}},
    {"RETAIN", "retain-s", "retain", "How long the finished batch is kept",
     DurationValue{&BatchOptions::retain, 0, internal::kMaxSeconds}},
    {"SLOTS", "slots", "slots", "Run at most this many jobs of the batch at once",
     NumberValue{&BatchOptions::slots, 1, BatchOptions::kMaxCount}},
    {"MAXFAILS", "max-fails", "max-fails", "Cancel the rest after this many failed jobs",
     NumberValue{&BatchOptions::max_fails, 1, BatchOptions::kMaxCount}},
    {"EPHEMERAL", "ephemeral", "ephemeral", "Do not write the batch to the store",
     FlagValue{&BatchOptions::ephemeral}},
    {"TRACE", "traceparent", "trace", "W3C traceparent for handlers and the log",
     TextValue{&BatchOptions::trace, is_valid_traceparent, "a W3C traceparent"}},
});
// clang-format on

// The option of this name, in any case; null if there is none. One hash and one comparison. Any
// thread.
const BatchOption* find_batch_option(std::string_view name);

// The words that give these options in a command: the inverse of the parser. Options that have
// their default are left out. Any thread.
std::vector<std::string> words_of(const BatchOptions& options);

}  // namespace locksley::proto
