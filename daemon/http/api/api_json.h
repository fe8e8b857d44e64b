// Writes the JSON of the API. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/http/router.h"
#include "daemon/server/state/inspection.h"

namespace locksley::daemon {

using Json = nlohmann::ordered_json;

// Names and outputs may be any bytes; invalid UTF-8 is replaced.
inline std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
inline HttpReply json_text_reply(std::string text, HttpStatus status = HttpStatus::kOk) {
  return {.status = status, .content_type = "application/json", .body = std::move(text) + "\n"};
}
inline HttpReply json_reply(const Json& json, HttpStatus status = HttpStatus::kOk) {
  return json_text_reply(json_text(json), status);
}

// The HTTP status for an error of the wire, by the code with which it begins.
inline HttpStatus status_of(std::string_view error) {
  const std::string_view code = error.substr(0, error.find(' '));
  if (code == "NOBATCH" || code == "NOHANDLER") return HttpStatus::kNotFound;
  if (code == "NOPERM" || code == "NOAUTH" || code == "DENIED") return HttpStatus::kForbidden;
  if (code == "QUEUEFULL" || code == "DRAINING" || code == "STORE") return HttpStatus::kUnavailable;
  return HttpStatus::kBadRequest;
}

inline HttpReply json_error(const std::string& error, HttpStatus status) {
  return json_reply({{"error", error}}, status);
}
inline HttpReply json_error(const std::string& error) { return json_error(error, status_of(error)); }

// Receives members (daemon/server/state/inspection.h) and adds them to an object.
class JsonMembers {
 public:
  explicit JsonMembers(Json& object) : object_(object) {}

  void operator()(const char* key, std::string_view value) const { object_[key] = std::string(value); }
  void operator()(const char* key, std::uint64_t value) const { object_[key] = value; }
  void operator()(const char* key, std::int64_t value) const { object_[key] = value; }
  void operator()(const char* key, bool value) const { object_[key] = value; }
  void operator()(const char* key, double value) const { object_[key] = rounded(value); }

 private:
  Json& object_;
};

}  // namespace locksley::daemon
