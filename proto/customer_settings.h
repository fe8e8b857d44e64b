// The settings of a customer (weight, slots, rate, jobs), and the text of a rate. Plain values; any
// thread, and nothing blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::proto {

// At most `count` starts in each `period`; a count of 0: no limit.
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
// default; in a command, that the setting stays as it is.
struct CustomerSettings {
  static constexpr std::uint32_t kMaxRate = 1'000'000;
  static constexpr std::uint64_t kMaxJobs = 1'000'000'000'000;

  std::optional<std::uint32_t> weight = {};    // compared with the user's other customers
  std::optional<std::uint32_t> slots = {};     // jobs at once; 0: no limit
  std::optional<CustomerRate> rate = {};       // of starts
  std::optional<std::uint64_t> max_jobs = {};  // accepted and not ended; 0: no limit

  bool is_empty() const { return !weight && !slots && !rate && !max_jobs; }
  // Takes over what `changes` has.
  void merge(const CustomerSettings& changes);

  friend bool operator==(const CustomerSettings&, const CustomerSettings&) = default;
};

}  // namespace locksley::proto
