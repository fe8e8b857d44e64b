#pragma once

#include <cstdint>

#include "proto/argument_list.h"

namespace locksley::daemon {

// How many chunks the payloads of a batch take, where that is known: then nobody has to look for what is to
// be deleted.
enum class PayloadParts : std::uint8_t { kNone, kOne, kUnknown };
PayloadParts parts_of(const proto::ArgumentList& payloads);

}  // namespace locksley::daemon
