// The settings of a customer (weight, slots, rate, jobs), and the text of a rate. Plain values; any
// thread, and nothing blocks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/batch_options.h"

namespace locksley::proto {

// A limit of at most `count` starts in each `period`; a count of 0: no limit.
struct CustomerRate {
  std::uint32_t count = 0;
  std::chrono::seconds period{1};

  friend bool operator==(const CustomerRate&, const CustomerRate&) = default;
};

// A rate such as 20/s, 300/m or 5/h, or 0; none for any other text, and for a count above
// CustomerSettings::kMaxRate. Any thread.
std::optional<CustomerRate> parse_customer_rate(std::string_view text);
// The inverse; "0" for no limit.
std::string to_string(CustomerRate rate);

// The settings of a customer, as CUSTOMER SET gives them. A plain value. An absent member means the
// default; in a command, it means no change.
struct CustomerSettings {
  static constexpr std::uint32_t kMaxRate = 1'000'000;
  static constexpr std::uint64_t kMaxJobs = 1'000'000'000'000;

  std::optional<std::uint32_t> weight = {};    // compared with the user's other customers
  std::optional<std::uint32_t> slots = {};     // jobs at once; 0: no limit
  std::optional<CustomerRate> rate = {};       // of starts
  std::optional<std::uint64_t> max_jobs = {};  // accepted and not ended; 0: no limit

  bool is_empty() const { return !weight && !slots && !rate && !max_jobs; }
  // Takes over the settings that `changes` has.
  void merge(const CustomerSettings& changes);

  friend bool operator==(const CustomerSettings&, const CustomerSettings&) = default;
};

// One option of CUSTOMER SET.
struct CustomerOption {
  std::string_view name;        // upper case; the parser accepts either case
  std::string_view value_name;  // in COMMAND DOCS
  std::uint64_t least;
  std::uint64_t most;
  void (*set)(CustomerSettings&, std::uint64_t);  // null: the value is a rate, and has no bounds here
};

// The table of these options, read by the parser and by COMMAND DOCS; in the order of COMMAND DOCS.
inline constexpr auto kCustomerOptions = std::to_array<CustomerOption>({
    {"WEIGHT", "weight", 1, BatchOptions::kMaxWeight,
     [](CustomerSettings& to, std::uint64_t weight) { to.weight = static_cast<std::uint32_t>(weight); }},
    {"SLOTS", "slots", 0, BatchOptions::kMaxCount,
     [](CustomerSettings& to, std::uint64_t slots) { to.slots = static_cast<std::uint32_t>(slots); }},
    {"RATE", "rate", 0, 0, nullptr},
    {"MAXJOBS", "max-jobs", 0, CustomerSettings::kMaxJobs,
     [](CustomerSettings& to, std::uint64_t jobs) { to.max_jobs = jobs; }},
});

}  // namespace locksley::proto
