// What a client calls a batch that it submits: its id, and its name for an admin. Any thread;
// nothing fails.
#pragma once

#include <string>

#include "proto/batch_options.h"

namespace locksley::client {

// A unique id for a batch: 128 random bits of the kernel as 32 hexadecimal digits. The client
// chooses the id, not the daemon, so that it can repeat a SUBMIT whose reply was lost.
std::string random_batch_id();

// What to call the batch with these options: its id; and if it is for user/customer, user/id, since
// an admin may have a batch of its own with this id. Where the daemon has no users, a customer's
// name may have a slash, and the id is right: Client::name_of() finds that out.
std::string likely_name(const proto::BatchOptions& options);

}  // namespace locksley::client
