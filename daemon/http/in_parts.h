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

// Makes a reply that may take long: at once if it fits into one slice, else later, in slices of
// `line`. `go_on` continues the reply until about `until`, and returns it once it is complete. If
// the daemon ends first, `go_on` is destroyed. If `go_on` throws in a later slice, the reply is a
// 500. The thread of the Slices, which outlive the reply.
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
