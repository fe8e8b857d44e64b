#pragma once

#include <string>

namespace locksley::client {

// A unique id for a batch: 128 random bits of the kernel as 32 hexadecimal digits. The client chooses the id,
// not the daemon, so that it can repeat a SUBMIT whose reply was lost.
std::string random_batch_id();

}  // namespace locksley::client
