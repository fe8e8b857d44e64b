// Changes of a batch that somebody asks for, by the wire or the HTTP side.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "daemon/server/batch_record.h"

namespace locksley::daemon {

class Batches;
class User;

enum class Control : std::uint8_t { kPause, kResume, kCancel, kRetry, kWeight };

// Does it, to a batch that `by` may see and change. `weight` is that of kWeight. The number is of jobs: of
// kCancel that will not run because of it, of kRetry that were queued again. The error is that of the reply.
// A reply waits for BatchRecord::ticket.
std::expected<std::uint64_t, std::string> control(Batches& batches, const User& by, BatchRecord& record,
                                                  Control what, std::uint32_t weight = 0);

}  // namespace locksley::daemon
