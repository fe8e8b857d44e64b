// The members of a map in a reply.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
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
  // A bool is 0 or 1.
  template <std::integral Value>
  void operator()(std::string_view key, Value value) const {
    reply_.bulk(key);
    reply_.integer(static_cast<std::int64_t>(value));
  }
  void operator()(std::string_view key, double value) const {
    reply_.bulk(key);
    reply_.real(rounded(value));
  }
  // None: a null.
  template <class Value>
  void operator()(std::string_view key, const std::optional<Value>& value) const {
    if (value) return (*this)(key, *value);
    reply_.bulk(key);
    reply_.null();
  }

 private:
  proto::ReplyWriter& reply_;
};

}  // namespace locksley::daemon
