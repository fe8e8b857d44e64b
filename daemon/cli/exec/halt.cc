#include "daemon/cli/exec/halt.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "daemon/base/exit_codes.h"

namespace locksley::cli {
namespace {

constexpr std::uint64_t kMostCounted = 100;

constexpr std::string_view kHaltForms =
    "expected never, or now or soon with fail=, success= or done= and a number or a share, such as "
    "now,fail=1 or "
    "soon,fail=30%";

}  // namespace

std::expected<Halt, std::string> Halt::parse(std::string_view text) {
  Halt halt;
  if (text == "never" || text == "0") return halt;
  // As GNU parallel abbreviates them.
  if (text == "1") return parse("soon,fail=1");
  if (text == "2") return parse("now,fail=1");
  const std::unexpected<std::string> problem{std::string(kHaltForms) + ", found '" + std::string(text) + "'"};
  const std::size_t comma = text.find(',');
  const std::size_t equals = text.find('=');
  if (comma == std::string_view::npos || equals == std::string_view::npos || equals < comma) return problem;
  const std::string_view when = text.substr(0, comma);
  const std::string_view what = text.substr(comma + 1, equals - comma - 1);
  std::string_view number = text.substr(equals + 1);
  if (when != "now" && when != "soon") return problem;
  halt.when_ = when == "now" ? When::kNow : When::kSoon;
  if (what != "fail" && what != "success" && what != "done") return problem;
  halt.what_ = what == "fail" ? What::kFail : what == "success" ? What::kSuccess : What::kDone;
  if (number.ends_with('%')) {
    halt.is_percent_ = true;
    number.remove_suffix(1);
  }
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), halt.number_);
  const std::uint64_t most = halt.is_percent_ ? 100 : std::numeric_limits<std::uint32_t>::max();
  if (error != std::errc{} || rest != number.data() + number.size() || halt.number_ == 0 ||
      halt.number_ > most)
    return problem;
  return halt;
}

std::optional<std::uint32_t> Halt::most_failed(bool is_one_at_a_time) const {
  const bool ends_running_jobs = when_ == When::kNow || is_one_at_a_time;
  if (when_ == When::kNever || what_ != What::kFail || is_percent_ || !ends_running_jobs) return std::nullopt;
  return static_cast<std::uint32_t>(number_);
}

bool Halt::is_reached(std::optional<std::uint64_t> total) const {
  if (when_ == When::kNever) return false;
  const std::uint64_t ended = what_ == What::kFail ? failed_ : what_ == What::kSuccess ? ok_ : ok_ + failed_;
  if (!is_percent_) return ended >= number_;
  return total && ended != 0 && ended * 100 >= number_ * *total;
}

int Halt::status_when_reached(int of_job, std::uint64_t total) const {
  if (what_ == What::kSuccess) return 0;
  if (number_ == 1 && !is_percent_) return of_job;
  return status_at_end(failed_, total);
}

int Halt::status_at_end(std::uint64_t bad, std::uint64_t total) const {
  if (is_percent_ && total != 0) return static_cast<int>((std::min(bad, total) * 100 + total - 1) / total);
  return bad > kMostCounted ? int{daemon::kExitManyJobsFailed} : static_cast<int>(bad);
}

}  // namespace locksley::cli
