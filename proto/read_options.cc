#include "proto/read_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proto/glob.h"
#include "proto/number.h"
#include "proto/submit_options.h"
#include "proto/text.h"

namespace locksley::proto {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 5> kStates = {"open", "queued", "running", "done", "cancelled"};
constexpr auto kMaxMilliseconds = static_cast<std::uint64_t>(BatchOptions::kMaxDuration.count());
// The wire's integers are signed, so a cursor is at most this.
constexpr std::uint64_t kMaxCursor = 0x7FFF'FFFF'FFFF'FFFF;

std::string needs(std::string_view what, std::string_view expected, std::string_view found) {
  std::string text = "ERR ";
  text += what;
  text += " needs ";
  text += expected;
  return text + ", found '" + printable(found) + "'";
}

std::string glob_is_too_long(std::string_view found) {
  return needs("option 'MATCH'", "at most " + std::to_string(kMaxGlobBytes) + " bytes", found);
}

// `kind`: the unit of the integer, such as " of milliseconds"; empty: it has none.
std::expected<std::uint64_t, std::string> parse_number(std::string_view what, std::string_view found,
                                                       std::uint64_t least, std::uint64_t most,
                                                       std::string_view kind = {}) {
  const auto value = parse_uint64(found);
  if (value && *value >= least && *value <= most) return *value;
  return std::unexpected(needs(
      what,
      "an integer" + std::string(kind) + " from " + std::to_string(least) + " to " + std::to_string(most),
      found));
}
constexpr std::string_view kOfMilliseconds = " of milliseconds";

// One option: its name, and the place for its value.
struct ValueOption {
  std::string_view name;
  std::uint64_t least;
  std::uint64_t most;
  std::uint64_t* number;  // the number's place
  std::string_view*
      text;  // or, for an option that is no number, the text's; both null: a word without a value
  std::string_view kind = {};  // as of parse_number()
  bool is_seen = false;

  bool has_value() const { return number != nullptr || text != nullptr; }
};

// Reads options, with their values, from `at` on, each at most once.
std::expected<void, std::string> parse_options(const ArgumentList& arguments, std::size_t at,
                                               std::span<ValueOption> options) {
  for (; at < arguments.size(); ++at) {
    const std::string_view word = arguments[at];
    const auto found = std::ranges::find_if(
        options, [&](const ValueOption& one) { return equals_ignoring_case(one.name, word); });
    if (found == options.end()) return std::unexpected("ERR unknown option '" + printable(word) + "'");
    const std::string what = "option '" + std::string(found->name) + "'";
    if (std::exchange(found->is_seen, true)) return std::unexpected("ERR " + what + " is given twice");
    if (!found->has_value()) continue;
    if (++at == arguments.size()) return std::unexpected("ERR " + what + " needs a value");
    const std::string_view value = arguments[at];
    if (found->text != nullptr) {
      *found->text = value;
      continue;
    }
    const auto number = parse_number(what, value, found->least, found->most, found->kind);
    if (!number) return std::unexpected(number.error());
    *found->number = *number;
  }
  return {};
}

}  // namespace

std::expected<ResultsCommand, std::string> parse_results(const ArgumentList& arguments) {
  ResultsCommand result;
  result.id = arguments[1];
  std::uint64_t block = 0;
  std::array options = {
      ValueOption{"FROM", 0, kMaxCursor, &result.from, nullptr},
      ValueOption{"COUNT", 1, ResultsCommand::kMaxCount, &result.count, nullptr},
      ValueOption{"BLOCK", 0, kMaxMilliseconds, &block, nullptr, kOfMilliseconds},
      ValueOption{"DISCARD", 0, 0, nullptr, nullptr},
      ValueOption{"FAILED", 0, 0, nullptr, nullptr},
  };
  if (auto parsed = parse_options(arguments, 2, options); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  if (options[2].is_seen) result.block = milliseconds(block);
  result.discards = options[3].is_seen;
  result.only_failed = options[4].is_seen;
  // A missing cursor is more likely a mistake than the wish to discard nothing.
  if (result.discards && !options[0].is_seen) return std::unexpected("ERR option 'DISCARD' needs 'FROM'");
  return result;
}

std::expected<ListCommand, std::string> parse_list(const ArgumentList& arguments) {
  ListCommand result;
  std::string_view state;
  std::string_view match;
  std::string_view customer;
  std::string_view handler;
  std::array options = {
      ValueOption{"STATE", 0, 0, nullptr, &state},
      ValueOption{"MATCH", 0, 0, nullptr, &match},
      ValueOption{"FOR", 0, 0, nullptr, &customer},
      ValueOption{"HANDLER", 0, 0, nullptr, &handler},
      ValueOption{"CURSOR", 0, kMaxCursor, &result.cursor, nullptr},
      ValueOption{"COUNT", 1, ListCommand::kMaxCount, &result.count, nullptr},
  };
  if (auto parsed = parse_options(arguments, 1, options); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  if (options[0].is_seen) {
    const auto found =
        std::ranges::find_if(kStates, [&](std::string_view one) { return equals_ignoring_case(one, state); });
    if (found == kStates.end()) {
      return std::unexpected(needs("option 'STATE'", "open, queued, running, done or cancelled", state));
    }
    result.state = *found;
  }
  if (match.size() > kMaxGlobBytes) return std::unexpected(glob_is_too_long(match));
  if (options[1].is_seen) result.match = match;
  if (!customer.empty() && !is_valid_customer_text(customer)) {
    return std::unexpected(needs("option 'FOR'", internal::kCustomerExpected, customer));
  }
  if (options[2].is_seen) result.customer = customer;
  if (options[3].is_seen) result.handler = handler;
  return result;
}

std::expected<WaitCommand, std::string> parse_wait(const ArgumentList& arguments) {
  WaitCommand result{arguments[1], std::nullopt};
  if (arguments.size() > 2) {
    const auto timeout = parse_number("timeout", arguments[2], 0, kMaxMilliseconds, kOfMilliseconds);
    if (!timeout) return std::unexpected(timeout.error());
    if (*timeout > 0) result.timeout = milliseconds(*timeout);
  }
  return result;
}

std::expected<WeightCommand, std::string> parse_weight(const ArgumentList& arguments) {
  const auto weight = parse_number("weight", arguments[2], 1, BatchOptions::kMaxWeight);
  if (!weight) return std::unexpected(weight.error());
  return WeightCommand{arguments[1], static_cast<std::uint32_t>(*weight)};
}

std::expected<SlotsCommand, std::string> parse_slots(const ArgumentList& arguments) {
  const auto slots = parse_number("slots", arguments[2], 0, BatchOptions::kMaxCount);
  if (!slots) return std::unexpected(slots.error());
  return SlotsCommand{arguments[1], static_cast<std::uint32_t>(*slots)};
}

std::expected<CustomerSetCommand, std::string> parse_customer_set(const ArgumentList& arguments) {
  CustomerSetCommand result{arguments[2], {}};
  std::array<std::uint64_t, kCustomerOptions.size()> numbers{};
  std::string_view rate;
  std::array<ValueOption, kCustomerOptions.size()> options{};
  for (std::size_t i = 0; i < options.size(); ++i) {
    const CustomerOption& option = kCustomerOptions[i];
    const bool is_rate = option.set == nullptr;
    options[i] = {option.name, option.least, option.most, is_rate ? nullptr : &numbers[i],
                  is_rate ? &rate : nullptr};
  }
  if (auto parsed = parse_options(arguments, 3, options); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  CustomerSettings& changes = result.changes;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (!options[i].is_seen) continue;
    if (const auto set = kCustomerOptions[i].set) {
      set(changes, numbers[i]);
      continue;
    }
    changes.rate = parse_customer_rate(rate);
    if (!changes.rate) {
      return std::unexpected(needs("option 'RATE'",
                                   "a rate such as 20/s, 300/m or 5/h, with a count of at most " +
                                       std::to_string(CustomerSettings::kMaxRate) + ", or 0",
                                   rate));
    }
  }
  return result;
}

std::expected<CustomerListCommand, std::string> parse_customer_list(const ArgumentList& arguments) {
  CustomerListCommand result;
  std::string_view match;
  std::array options = {
      ValueOption{"MATCH", 0, 0, nullptr, &match},
      ValueOption{"CURSOR", 0, kMaxCursor, &result.cursor, nullptr},
      ValueOption{"COUNT", 1, ListCommand::kMaxCount, &result.count, nullptr},
  };
  if (auto parsed = parse_options(arguments, 2, options); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  if (match.size() > kMaxGlobBytes) return std::unexpected(glob_is_too_long(match));
  if (options[0].is_seen) result.match = match;
  return result;
}

std::expected<AddatCommand, std::string> parse_addat(const ArgumentList& arguments) {
  const auto at = parse_number("n", arguments[2], 0, kMaxCursor);
  if (!at) return std::unexpected(at.error());
  return AddatCommand{arguments[1], *at};
}

std::expected<RetryCommand, std::string> parse_retry(const ArgumentList& arguments) {
  RetryCommand result{.id = arguments[1], .round = std::nullopt};
  std::size_t at = 2;
  if (at < arguments.size() && equals_ignoring_case(arguments[at], "ROUND")) {
    if (at + 1 == arguments.size()) return std::unexpected("ERR option 'ROUND' needs a value");
    const auto round = parse_number("option 'ROUND'", arguments[at + 1], 0, kMaxCursor);
    if (!round) return std::unexpected(round.error());
    result.round = *round;
    at += 2;
  }
  if (arguments.size() - at > RetryCommand::kMaxIndexes) {
    return std::unexpected("ERR RETRY takes at most " + std::to_string(RetryCommand::kMaxIndexes) +
                           " indexes, found " + std::to_string(arguments.size() - at) +
                           ": use several commands, or none for all failed jobs");
  }
  for (; at < arguments.size(); ++at) {
    const auto index = parse_number("the index of a job", arguments[at], 0, kMaxCursor);
    if (!index) return std::unexpected(index.error());
    result.indexes.push_back(*index);
  }
  return result;
}

std::expected<JobCommand, std::string> parse_job(const ArgumentList& arguments) {
  const auto index = parse_number("the index of a job", arguments[2], 0, kMaxCursor);
  if (!index) return std::unexpected(index.error());
  return JobCommand{arguments[1], *index};
}

std::expected<LogCommand, std::string> parse_log(const ArgumentList& arguments) {
  const auto job = parse_job(arguments);
  if (!job) return std::unexpected(job.error());
  LogCommand result{.id = job->id, .index = job->index};
  std::uint64_t block = 0;
  std::array options = {
      ValueOption{"FROM", 0, kMaxCursor, &result.from, nullptr},
      ValueOption{"BLOCK", 0, kMaxMilliseconds, &block, nullptr, kOfMilliseconds},
  };
  if (auto parsed = parse_options(arguments, 3, options); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  if (options[1].is_seen) result.block = milliseconds(block);
  return result;
}

std::expected<RunningCommand, std::string> parse_running(const ArgumentList& arguments) {
  RunningCommand result;
  // With an even number of words there is an id before the option, or only an id, which may be
  // COUNT.
  const bool has_id =
      arguments.size() % 2 == 0 || (arguments.size() > 1 && !equals_ignoring_case(arguments[1], "COUNT"));
  if (has_id) result.id = arguments[1];
  std::array options = {ValueOption{"COUNT", 1, RunningCommand::kMaxCount, &result.count, nullptr}};
  if (auto parsed = parse_options(arguments, has_id ? 2 : 1, options); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  return result;
}

}  // namespace locksley::proto
