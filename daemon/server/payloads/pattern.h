// The pattern of a range of jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/batch/shared_text.h"
#include "daemon/base/time.h"
#include "daemon/server/payloads/digest.h"

namespace locksley::daemon {

// The text in which each "{}" stands for the number of a job. Admission and repetitions use its
// places and digest, since reading a text of many megabytes takes long.
struct Pattern {
  SharedText text;
  std::uint64_t places = 0;                     // how many "{}" it has
  std::optional<Digest> digest = std::nullopt;  // none: not known
};

// The jobs of SUBMIT with RANGE.
struct RangeJobs {
  std::int64_t low = 0;
  std::int64_t high = 0;
  Pattern pattern = {};  // without a text: the payloads are the decimals alone

  std::uint64_t size() const { return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low); }
};

// Copies a pattern part by part, for a thread that must not work for long.
//
// The text stays as it is until go_on() has returned the pattern. One thread at a time. Nothing
// blocks. Throws std::bad_alloc.
class PatternInParts {
 public:
  explicit PatternInParts(std::string_view text);
  ~PatternInParts();
  PatternInParts(const PatternInParts&) = delete;
  PatternInParts& operator=(const PatternInParts&) = delete;

  // Goes on until about `until`. Returns the pattern when it is complete; then the calls are over.
  std::optional<Pattern> go_on(Instant until);

 private:
  struct State;

  const std::unique_ptr<State> state_;
  std::string_view left_;
};

// The same at once: about 0.5 ms for a megabyte.
Pattern pattern_of(std::string_view text);

}  // namespace locksley::daemon
