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

using Parsed = std::expected<void, std::string>;

std::unexpected<std::string> expected_but_found(std::string_view option, std::string_view expected,
                                                std::string_view found) {
  std::string text = "ERR option '";
  text += option;
  text += "' needs ";
  text += expected;
  text += ", found '" + printable(found) + "'";
  return std::unexpected(std::move(text));
}

// The words after which no option can follow.
constexpr std::string_view kJobs = "JOBS";
constexpr std::string_view kRange = "RANGE";

bool is_source(std::string_view word) {
  return equals_ignoring_case(word, kJobs) || equals_ignoring_case(word, kRange);
}

std::string quoted(const BatchOption& option) { return "option '" + std::string(option.name) + "'"; }

// The unit of an option's integer.
template <class Member>
constexpr std::string_view kind_of(const NumberValue<Member>&) {
  return "";
}
constexpr std::string_view kind_of(const DurationValue<std::chrono::milliseconds>&) {
  return " of milliseconds";
}
constexpr std::string_view kind_of(const DurationValue<std::chrono::seconds>&) { return " of seconds"; }

// `bounds`: a NumberValue or a DurationValue.
std::expected<std::uint64_t, std::string> parse_number(const BatchOption& option, const auto& bounds,
                                                       std::string_view text) {
  const auto number = parse_uint64(text);
  if (number && *number >= bounds.least && *number <= bounds.most) return *number;
  return expected_but_found(option.name,
                            "an integer" + std::string(kind_of(bounds)) + " from " +
                                std::to_string(bounds.least) + " to " + std::to_string(bounds.most),
                            text);
}

// Reads the words after the handler: options in any order, each at most once but AFTER and AFTEROK,
// until JOBS, RANGE or the end.
class OptionParser {
 public:
  // `hint`: additional text of the error for a word that is no option.
  OptionParser(const ArgumentList& arguments, BatchOptions& options, std::string_view hint = {})
      : arguments_(arguments), options_(options), hint_(hint) {}

  // Returns the index of the word that ended the options; arguments.size() if there is none.
  std::expected<std::size_t, std::string> parse(std::size_t at) {
    while (at < arguments_.size()) {
      const std::string_view word = arguments_[at];
      const BatchOption* const option = find_batch_option(word);
      if (option == nullptr) {
        if (is_source(word)) break;
        return std::unexpected("ERR unknown option '" + printable(word) + "'" + std::string(hint_) +
                               swallowed());
      }
      bool& is_seen = is_seen_[static_cast<std::size_t>(option - kBatchOptions.data())];
      if (std::exchange(is_seen, true) && !std::holds_alternative<AfterValue>(option->value)) {
        return std::unexpected("ERR " + quoted(*option) + " is given twice");
      }
      ++at;
      if (const auto* flag = std::get_if<FlagValue>(&option->value)) {
        options_.*flag->member = true;
        continue;
      }
      if (at == arguments_.size()) return std::unexpected("ERR " + quoted(*option) + " needs a value");
      const std::string_view text = arguments_[at++];
      if (is_source(text) || find_batch_option(text) != nullptr) {
        swallower_ = option;
        swallowed_ = text;
      }
      auto set =
          std::visit([&](const auto& value) { return this->set(*option, value, text); }, option->value);
      if (!set) return std::unexpected(std::move(set.error()));
    }
    if (!options_.id.empty() && after_.contains(options_.id)) {
      return std::unexpected("ERR the batch '" + options_.id + "' cannot wait for itself");
    }
    return at;
  }

  // Additional text of the error for a missing or an unknown word: a value may have been left out.
  std::string swallowed() const {
    if (swallower_ == nullptr) return {};
    return "; " + quoted(*swallower_) + " took '" + printable(swallowed_) + "' as its value";
  }

 private:
  Parsed set(const BatchOption& option, const TextValue& value, std::string_view text) {
    if (!value.is_valid(text)) return expected_but_found(option.name, value.expected, text);
    options_.*value.member = text;
    return {};
  }

  template <class Member>
  Parsed set(const BatchOption& option, const NumberValue<Member>& value, std::string_view text) {
    const auto number = parse_number(option, value, text);
    if (!number) return std::unexpected(number.error());
    options_.*value.member = static_cast<std::uint32_t>(*number);
    return {};
  }
  template <class Unit>
  Parsed set(const BatchOption& option, const DurationValue<Unit>& value, std::string_view text) {
    const auto number = parse_number(option, value, text);
    if (!number) return std::unexpected(number.error());
    options_.*value.member = Unit(*number);
    return {};
  }

  Parsed set(const BatchOption& option, const KeepValue& value, std::string_view text) {
    for (const Keep keep : kKeeps) {
      if (equals_ignoring_case(to_string(keep), text)) {
        options_.*value.member = keep;
        return {};
      }
    }
    return expected_but_found(option.name, "all, failures or none", text);
  }

  Parsed set(const BatchOption&, const FlagValue&, std::string_view) { return {}; }  // see parse()

  Parsed set(const BatchOption& option, const AfterValue& value, std::string_view text) {
    // A command may have millions of words.
    if (++waits_ > kMostWaits) {
      return std::unexpected("ERR a command has at most " + std::to_string(kMostWaits) +
                             " AFTER and AFTEROK");
    }
    if (!is_valid_batch_id(text)) return expected_but_found(option.name, "the id of a batch", text);
    std::vector<AfterBatch>& all = options_.*value.member;
    const auto [known, is_new] = after_.emplace(text, all.size());
    if (!is_new) {
      // The batch waits once for a batch that is given twice; the stricter condition counts.
      AfterBatch& same = all[known->second];
      same.only_if_ok = same.only_if_ok || value.only_if_ok;
      return {};
    }
    if (all.size() == BatchOptions::kMaxAfter) {
      return std::unexpected("ERR a batch waits for at most " + std::to_string(BatchOptions::kMaxAfter) +
                             " others");
    }
    all.push_back({std::string(text), value.only_if_ok});
    return {};
  }

  const ArgumentList& arguments_;
  BatchOptions& options_;
  const std::string_view hint_;
  // The last option whose value is a word that could begin an option, or the jobs; null: none.
  const BatchOption* swallower_ = nullptr;
  std::string_view swallowed_;
  std::array<bool, kBatchOptions.size()> is_seen_{};
  static constexpr std::size_t kMostWaits = 2 * BatchOptions::kMaxAfter;  // each batch by both
  std::size_t waits_ = 0;
  std::unordered_map<std::string_view, std::size_t>
      after_;  // id, its index in options_.after; views of the command
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
  if (words == 4) range.payload_at = at + 3;
  return range;
}

constexpr std::size_t kHandlerAt = 1;
constexpr std::size_t kOptionsAt = 2;

std::expected<SubmitCommand, std::string> parse_batch(const ArgumentList& arguments, bool may_be_range) {
  SubmitCommand result{std::string(arguments[kHandlerAt]), {}, JobsSource{0}};
  OptionParser parser(arguments, result.options,
                      may_be_range ? ": payloads follow the word JOBS; one with {} may follow RANGE low high"
                                   : ": payloads follow the word JOBS");
  const auto stop = parser.parse(kOptionsAt);
  if (!stop) return std::unexpected(stop.error());
  const std::string_view wanted = may_be_range ? "JOBS payload ... or RANGE low high" : "JOBS payload ...";
  if (*stop == arguments.size()) {
    return std::unexpected("ERR the jobs are missing: expected " + std::string(wanted) + parser.swallowed());
  }
  if (equals_ignoring_case(arguments[*stop], kJobs)) {
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

// Whether `is_wanted` holds for one of the options of a command of one of these kinds. Calls it in
// the order of the command.
bool any_option(const ArgumentList& arguments, const auto& is_wanted) {
  for (std::size_t at = kOptionsAt; at < arguments.size();) {
    const BatchOption* const option = find_batch_option(arguments[at]);
    if (option == nullptr) return false;
    if (is_wanted(*option)) return true;
    at += std::holds_alternative<FlagValue>(option->value) ? 1 : 2;
  }
  return false;
}

}  // namespace

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

bool has_more_waits(const ArgumentList& arguments, std::size_t most) {
  std::size_t waits = 0;
  return any_option(arguments, [&](const BatchOption& option) {
    return std::holds_alternative<AfterValue>(option.value) && ++waits > most;
  });
}

bool is_ephemeral(const ArgumentList& arguments) {
  return any_option(arguments, [](const BatchOption& option) {
    const auto* const flag = std::get_if<FlagValue>(&option.value);
    return flag != nullptr && flag->member == &BatchOptions::ephemeral;
  });
}

}  // namespace locksley::proto
