// Where the payloads of a batch lie. Any thread.
#pragma once

#include <cstdint>

#include "proto/argument_list.h"

namespace locksley::daemon {

// Where the payloads of a batch are, as far as is known: nowhere, because it has none; in the row
// of its acceptance; in one row of their own; or in any number of rows. With all but kUnknown,
// deleting them needs no search.
enum class PayloadParts : std::uint8_t { kNone, kInRow, kOne, kUnknown };
PayloadParts parts_of(const proto::ArgumentList& payloads);

}  // namespace locksley::daemon
