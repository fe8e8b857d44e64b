// When `locksley exec` stops early, and its exit status.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::cli {

// `--halt` of `locksley exec`, as of GNU parallel: `never`, or `now` or `soon`, a comma, `fail`,
// `success` or `done`, `=`, and a number of jobs or a share of all such as 30%. `now` ends the
// running jobs, `soon` only starts no more jobs. 0, 1 and 2 are short for never, soon,fail=1 and
// now,fail=1. A plain value; nothing blocks.
class Halt {
 public:
  enum class When : std::uint8_t { kNever, kSoon, kNow };

  // The error is for the user.
  static std::expected<Halt, std::string> parse(std::string_view text);

  When when() const { return when_; }
  // The number of failed jobs at which the daemon can end the batch by itself (MAXFAILS); none: it
  // cannot. The daemon then also ends the running jobs, so `soon` has a number only if jobs run one
  // at a time.
  std::optional<std::uint32_t> most_failed(bool is_one_at_a_time) const;

  // Counts a job that has ended.
  void count(bool is_ok) { ++(is_ok ? ok_ : failed_); }
  // `total`: the number of jobs, if it is known.
  bool is_reached(std::optional<std::uint64_t> total) const;

  // The exit status of the whole call once --halt is reached; `of_job`: the exit status of the job
  // that reached it.
  int status_when_reached(int of_job, std::uint64_t total) const;
  // The exit status if --halt was not reached: `bad` of `total` jobs failed, or did not run to
  // their end.
  int status_at_end(std::uint64_t bad, std::uint64_t total) const;

 private:
  enum class What : std::uint8_t { kFail, kSuccess, kDone };
  When when_ = When::kNever;
  What what_ = What::kFail;
  std::uint64_t number_ = 0;
  bool is_percent_ = false;
  std::uint64_t ok_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace locksley::cli
