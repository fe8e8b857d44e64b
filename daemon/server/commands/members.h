#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/server/state/inspection.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// Writes the members of a map into a reply: each key, and its value.
//
// On the stack of the function that writes the reply, which outlives it. Nothing blocks or fails.
class Members {
 public:
  explicit Members(proto::ReplyWriter& reply) : reply_(reply) {}

  void operator()(std::string_view key, std::string_view value) const {
    reply_.bulk(key);
    reply_.bulk(value);
  }
  void operator()(std::string_view key, std::uint64_t value) const {
    (*this)(key, static_cast<std::int64_t>(value));
  }
  void operator()(std::string_view key, std::int64_t value) const {
    reply_.bulk(key);
    reply_.integer(value);
  }
  void operator()(std::string_view key, bool value) const { (*this)(key, static_cast<std::int64_t>(value)); }
  void operator()(std::string_view key, double value) const {
    reply_.bulk(key);
    reply_.real(rounded(value));
  }

 private:
  proto::ReplyWriter& reply_;
};

}  // namespace locksley::daemon
