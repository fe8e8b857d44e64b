#pragma once

#include <cstdint>

#include "proto/argument_list.h"

namespace locksley::daemon {

// The number of rows that the payloads of a batch take, as far as it is known: with kNone and kOne,
// deleting them needs no search.
enum class PayloadParts : std::uint8_t { kNone, kOne, kUnknown };
PayloadParts parts_of(const proto::ArgumentList& payloads);

}  // namespace locksley::daemon
