// A batch's status as text and as JSON. Any thread; nothing blocks or fails.
#pragma once

#include <span>
#include <string>

#include "proto/clients/cpp/values.h"

namespace locksley::cli {

// A batch's status: `key  value` lines for people, one JSON object for programs, a table of
// several.
std::string status_text(const client::BatchStatus& status);
std::string status_json(const client::BatchStatus& status);
std::string status_table(std::span<const client::BatchStatus> batches);

}  // namespace locksley::cli
