// Replies that are made a part at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/http/router.h"

namespace locksley::daemon {

// The reply of a page that may be long: at once if it takes no longer than a slice, else later, in
// slices of this line. `go_on` makes more of it until about the instant; it returns the reply once
// that is whole. It is destroyed unfinished if the daemon ends. If it throws in a later slice, the
// reply is a 500. The thread of the Slices, which outlive the reply.
inline HttpReply reply_in_parts(Slices& slices, LineNumber line,
                                std::function<std::optional<HttpReply>(Instant until)> go_on) {
  if (auto reply = go_on(now() + Slices::kSlice)) return *std::move(reply);
  return {.later = [&slices, line, go_on = std::move(go_on)](const HttpReply::Answer& answer) {
    slices.add(
        [go_on, answer](Instant until) {
          std::optional<HttpReply> reply;
          try {
            reply = go_on(until);
          } catch (...) {
            reply = HttpReply{.status = HttpStatus::kInternalError,
                              .body = std::string(reason_phrase(HttpStatus::kInternalError)) + "\n"};
          }
          if (!reply) return false;
          answer(*std::move(reply));
          return true;
        },
        line);
  }};
}

}  // namespace locksley::daemon
