#pragma once

#include <string>

namespace locksley::client {

// An id for a batch that nobody else will choose: 128 random bits of the kernel as 32 hexadecimal digits. The
// client chooses it, not the daemon, so that a SUBMIT whose reply was lost can be sent again.
std::string random_batch_id();

}  // namespace locksley::client
