#include "proto/submit_options.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <utility>

#include "proto/number.h"
#include "proto/text.h"

namespace locksley::proto {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Parsed = std::expected<void, std::string>;

enum class Option : std::uint8_t {
  kId,
  kName,
  kWeight,
  kTimeout,
  kDeadline,
  kKeep,
  kRetain,
  kSlots,
  kMaxfails,
  kRetries,
  kDelay,
  kAfter,
  kAfterok,
  kEphemeral,
  kTrace,
  kJobs,
  kRange,
  kUnknown,
};

struct OptionName {
  std::string_view name;
  Option option;
};

constexpr OptionName kOptions[] = {
    {"ID", Option::kId},
    {"NAME", Option::kName},
    {"WEIGHT", Option::kWeight},
    {"TIMEOUT", Option::kTimeout},
    {"DEADLINE", Option::kDeadline},
    {"KEEP", Option::kKeep},
    {"RETAIN", Option::kRetain},
    {"SLOTS", Option::kSlots},
    {"MAXFAILS", Option::kMaxfails},
    {"EPHEMERAL", Option::kEphemeral},
    {"TRACE", Option::kTrace},
    {"JOBS", Option::kJobs},
    {"RANGE", Option::kRange},
    {"RETRIES", Option::kRetries},
    {"DELAY", Option::kDelay},
    {"AFTER", Option::kAfter},
    {"AFTEROK", Option::kAfterok},
};

constexpr OptionName kUnknownOption{"", Option::kUnknown};

const OptionName& find_option(std::string_view word) {
  for (const OptionName& one : kOptions) {
    if (equals_ignoring_case(one.name, word)) return one;
  }
  return kUnknownOption;
}

std::unexpected<std::string> expected_but_found(std::string_view option, std::string_view expected,
                                                std::string_view found) {
  std::string text = "ERR option '";
  text += option;
  text += "' needs ";
  text += expected;
  text += ", found '" + printable(found) + "'";
  return std::unexpected(std::move(text));
}

std::expected<std::uint64_t, std::string> parse_count(std::string_view option, std::string_view found,
                                                      std::uint64_t least, std::uint64_t most) {
  const auto value = parse_uint64(found);
  if (!value || *value < least || *value > most) {
    return expected_but_found(
        option, "an integer from " + std::to_string(least) + " to " + std::to_string(most), found);
  }
  return *value;
}

bool is_printable_text(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

// AFTER and AFTEROK may be repeated.
bool is_repeatable(Option option) { return option == Option::kAfter || option == Option::kAfterok; }

// Reads the words behind the handler: options in any order, most of them at most once, until JOBS, RANGE or
// the end.
class OptionParser {
 public:
  OptionParser(const ArgumentList& arguments, BatchOptions& options)
      : arguments_(arguments), options_(options) {}

  // Where the word stands that ended the options; arguments.size() if none did.
  std::expected<std::size_t, std::string> parse(std::size_t at) {
    while (at < arguments_.size()) {
      const std::string_view word = arguments_[at];
      const OptionName& found = find_option(word);
      if (found.option == Option::kJobs || found.option == Option::kRange) break;
      if (found.option == Option::kUnknown) {
        return std::unexpected("ERR unknown option '" + printable(word) + "'");
      }
      if (std::exchange(seen_[static_cast<std::size_t>(found.option)], true) &&
          !is_repeatable(found.option)) {
        return std::unexpected("ERR option '" + std::string(found.name) + "' is given twice");
      }
      if (found.option == Option::kEphemeral) {
        options_.ephemeral = true;
        ++at;
        continue;
      }
      if (at + 1 == arguments_.size()) {
        return std::unexpected("ERR option '" + std::string(found.name) + "' needs a value");
      }
      if (auto set = set_value(found, arguments_[at + 1]); !set)
        return std::unexpected(std::move(set.error()));
      at += 2;
    }
    if (!options_.id.empty() && after_.contains(options_.id)) {
      return std::unexpected("ERR the batch '" + options_.id + "' cannot wait for itself");
    }
    return at;
  }

 private:
  Parsed set_value(const OptionName& option, std::string_view value) {
    switch (option.option) {
      case Option::kId:
        if (!is_valid_batch_id(value)) {
          return expected_but_found(option.name, "1 to 128 printable ASCII characters without spaces", value);
        }
        options_.id = value;
        return {};
      case Option::kName:
        if (value.size() > BatchOptions::kMaxNameBytes || !is_printable_text(value)) {
          return expected_but_found(option.name, "at most 256 bytes without control characters", value);
        }
        options_.name = value;
        return {};
      case Option::kTrace:
        if (!is_valid_traceparent(value)) {
          return expected_but_found(option.name, "a W3C traceparent", value);
        }
        options_.trace = value;
        return {};
      case Option::kKeep:
        return set_keep(option.name, value);
      case Option::kAfter:
      case Option::kAfterok:
        return add_after(option, value);
      default:
        return set_number(option, value);
    }
  }

  Parsed set_keep(std::string_view option, std::string_view value) {
    for (const Keep keep : {Keep::kAll, Keep::kFailures, Keep::kNone}) {
      if (equals_ignoring_case(to_string(keep), value)) {
        options_.keep = keep;
        return {};
      }
    }
    return expected_but_found(option, "all, failures or none", value);
  }

  Parsed add_after(const OptionName& option, std::string_view value) {
    if (!is_valid_batch_id(value)) return expected_but_found(option.name, "the id of a batch", value);
    const bool only_if_ok = option.option == Option::kAfterok;
    const auto [known, is_new] = after_.emplace(value, options_.after.size());
    if (!is_new) {
      // Twice the same is once; the stricter of the two counts.
      AfterBatch& same = options_.after[known->second];
      same.only_if_ok = same.only_if_ok || only_if_ok;
      return {};
    }
    if (options_.after.size() == BatchOptions::kMaxAfter) {
      return std::unexpected("ERR a batch waits for at most " + std::to_string(BatchOptions::kMaxAfter) +
                             " others");
    }
    options_.after.push_back({std::string(value), only_if_ok});
    return {};
  }

  Parsed set_number(const OptionName& option, std::string_view value) {
    std::uint64_t least = 1;
    std::uint64_t most = BatchOptions::kMaxCount;
    switch (option.option) {
      case Option::kWeight:
        most = BatchOptions::kMaxWeight;
        break;
      case Option::kTimeout:
      case Option::kDeadline:
      case Option::kDelay:
        most = static_cast<std::uint64_t>(BatchOptions::kMaxDuration.count());
        break;
      case Option::kRetain:
        least = 0;  // not kept at all once it is over
        most = static_cast<std::uint64_t>(duration_cast<seconds>(BatchOptions::kMaxDuration).count());
        break;
      case Option::kRetries:
        least = 0;  // none, whatever the handler's default
        most = BatchOptions::kMaxRetries;
        break;
      default:
        break;
    }
    const auto parsed = parse_count(option.name, value, least, most);
    if (!parsed) return std::unexpected(parsed.error());
    switch (option.option) {
      case Option::kWeight:
        options_.weight = static_cast<std::uint32_t>(*parsed);
        break;
      case Option::kTimeout:
        options_.timeout = milliseconds(*parsed);
        break;
      case Option::kDeadline:
        options_.deadline = milliseconds(*parsed);
        break;
      case Option::kDelay:
        options_.delay = milliseconds(*parsed);
        break;
      case Option::kRetries:
        options_.retries = static_cast<std::uint32_t>(*parsed);
        break;
      case Option::kRetain:
        options_.retain = seconds(*parsed);
        break;
      case Option::kSlots:
        options_.slots = static_cast<std::uint32_t>(*parsed);
        break;
      default:
        options_.max_fails = static_cast<std::uint32_t>(*parsed);
        break;
    }
    return {};
  }

  const ArgumentList& arguments_;
  BatchOptions& options_;
  std::array<bool, static_cast<std::size_t>(Option::kUnknown) + 1> seen_{};
  std::unordered_map<std::string_view, std::size_t> after_;  // places in options_.after; views of the command
};

std::expected<RangeSource, std::string> parse_range(const ArgumentList& arguments, std::size_t at) {
  const std::size_t words = arguments.size() - at;
  if (words < 3 || words > 4) return std::unexpected("ERR RANGE needs low, high and at most one payload");
  const auto low = parse_int64(arguments[at + 1]);
  const auto high = parse_int64(arguments[at + 2]);
  if (!low || !high) {
    return std::unexpected("ERR RANGE needs integers of 64 bits, found '" +
                           printable(arguments[at + (low ? 2 : 1)]) + "'");
  }
  if (*low > *high) {
    return std::unexpected("ERR RANGE needs low <= high, found " + std::to_string(*low) + " and " +
                           std::to_string(*high));
  }
  RangeSource range{*low, *high, std::nullopt};
  if (words == 4) range.payload = std::string(arguments[at + 3]);
  return range;
}

constexpr std::size_t kHandlerAt = 1;
constexpr std::size_t kOptionsAt = 2;

std::expected<SubmitCommand, std::string> parse_batch(const ArgumentList& arguments, bool may_be_range) {
  SubmitCommand result{std::string(arguments[kHandlerAt]), {}, JobsSource{0}};
  const auto stop = OptionParser(arguments, result.options).parse(kOptionsAt);
  if (!stop) return std::unexpected(stop.error());
  const std::string_view wanted = may_be_range ? "JOBS payload ... or RANGE low high" : "JOBS payload ...";
  if (*stop == arguments.size()) {
    return std::unexpected("ERR the jobs are missing: expected " + std::string(wanted));
  }
  if (find_option(arguments[*stop]).option == Option::kJobs) {
    if (*stop + 1 == arguments.size()) return std::unexpected("ERR JOBS needs at least one payload");
    result.source = JobsSource{*stop + 1};
    return result;
  }
  if (!may_be_range) return std::unexpected("ERR RUN takes JOBS payload ..., not RANGE");
  auto range = parse_range(arguments, *stop);
  if (!range) return std::unexpected(std::move(range.error()));
  result.source = std::move(*range);
  return result;
}

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string_view to_string(Keep keep) {
  switch (keep) {
    case Keep::kAll:
      return "all";
    case Keep::kFailures:
      return "failures";
    case Keep::kNone:
      return "none";
  }
  return "";
}

bool is_valid_batch_id(std::string_view id) {
  return !id.empty() && id.size() <= BatchOptions::kMaxIdBytes &&
         std::ranges::all_of(id, [](char c) { return c > 32 && c < 127; });
}

// https://www.w3.org/TR/trace-context/ : version 00, trace id, parent id (neither all zeros), flags.
bool is_valid_traceparent(std::string_view text) {
  constexpr std::size_t kBytes = 55;
  if (text.size() != kBytes || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(3, 32);
  const std::string_view parent = text.substr(36, 16);
  const std::string_view flags = text.substr(53, 2);
  const auto is_zero = [](std::string_view hex) { return hex.find_first_not_of('0') == hex.npos; };
  return version == "00" && is_lower_hex(trace) && is_lower_hex(parent) && is_lower_hex(flags) &&
         !is_zero(trace) && !is_zero(parent);
}

std::expected<SubmitCommand, std::string> parse_submit(const ArgumentList& arguments) {
  return parse_batch(arguments, true);
}

std::expected<SubmitCommand, std::string> parse_run(const ArgumentList& arguments) {
  return parse_batch(arguments, false);
}

std::expected<OpenCommand, std::string> parse_open(const ArgumentList& arguments) {
  OpenCommand result{std::string(arguments[kHandlerAt]), {}};
  const auto stop = OptionParser(arguments, result.options).parse(kOptionsAt);
  if (!stop) return std::unexpected(stop.error());
  if (*stop < arguments.size()) {
    return std::unexpected("ERR OPEN takes no jobs, found '" + printable(arguments[*stop]) + "': use ADD");
  }
  return result;
}

}  // namespace locksley::proto
