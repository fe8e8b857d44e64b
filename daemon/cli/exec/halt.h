#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::cli {

// `--halt` of `locksley exec`, as of GNU parallel: `never`, or `now` or `soon`, a comma, `fail`,
// `success` or `done`, `=`, and a number of jobs or a share of all such as 30%. `now` ends the jobs
// that run, `soon` only starts no more. A plain value; nothing blocks.
class Halt {
 public:
  enum class When : std::uint8_t { kNever, kSoon, kNow };

  // The error is for the user.
  static std::expected<Halt, std::string> parse(std::string_view text);

  When when() const { return when_; }
  // The number of failed jobs that halts it, if the daemon can count them and end the batch: only
  // with `now`, because the daemon then ends the jobs that run.
  std::optional<std::uint32_t> most_failed() const;

  // One more job has ended. `total`: the number of jobs, if it is known.
  void count(bool is_ok) { ++(is_ok ? ok_ : failed_); }
  bool is_reached(std::optional<std::uint64_t> total) const;

 private:
  enum class What : std::uint8_t { kFail, kSuccess, kDone };
  // A share is not looked at before so many jobs have ended so; as GNU parallel has it.
  static constexpr std::uint64_t kFewest = 3;

  When when_ = When::kNever;
  What what_ = What::kFail;
  std::uint64_t number_ = 0;
  bool is_percent_ = false;
  std::uint64_t ok_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace locksley::cli
