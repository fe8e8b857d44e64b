// Reads the JSON that requests of the API bring.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "daemon/http/api/api_json.h"

namespace locksley::daemon {

// Parses a body; Json::is_discarded() if it is no JSON. The error, a sentence of the API, names a
// key that an object has twice: JSON leaves open which of the two counts, and the library would
// take the last one. Any thread.
std::expected<Json, std::string> json_of_body(std::string_view body);

}  // namespace locksley::daemon
