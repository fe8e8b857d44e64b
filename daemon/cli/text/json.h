// JSON of replies and results, for --json. Any thread; nothing blocks or fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/clients/cpp/values.h"
#include "proto/reply.h"

namespace locksley::cli {

// JSON text for --json, on one line without its newline. JSON is UTF-8: in the strings of a reply,
// invalid bytes become U+FFFD. A job's output with invalid bytes is "output_base64" instead of
// "output", so that no byte is lost. Characters that a terminal may obey (is_control()) are
// escaped.

// Maps become objects, with their keys in the daemon's order; arrays stay arrays.
std::string json_text(const proto::Reply& reply);

// {"index":17,"status":"ok","output":"..."}; with `file`, which has the output, "file" instead of
// "output"; with `input`, the name of the job's input, "input" before "status"; with `payload`,
// "payload" at the end.
struct RowNames {
  std::optional<std::string> input = {};
  std::string file = {};
  std::optional<std::string> payload = {};
};
std::string json_text(const client::ResultRow& row, const RowNames& names = {});

// The map of JOB. Its strings may be any bytes: one that is not UTF-8 is "KEY_base64" instead of
// "KEY".
std::string json_of_job(const proto::Reply& reply);

// A part of a job's log, from this offset on: {"offset":0,"log":"..."}; "log_base64" if it is not
// UTF-8, as where a part ends within a character.
std::string json_of_log(std::uint64_t offset, std::string_view bytes);

// An object of the given members, in their order.
using JsonValue = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string>;
std::string json_object(const std::vector<std::pair<std::string, JsonValue>>& members);

std::string base64(std::string_view bytes);

}  // namespace locksley::cli
