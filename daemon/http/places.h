// Which connection gives way to a newcomer when all places are taken. The I/O thread only.
#pragma once

#include <asio/ip/address.hpp>
#include <list>

#include "daemon/base/time.h"
#include "daemon/http/connection.h"
#include "daemon/http/limits.h"

namespace locksley::daemon {

// Chooses among the connections for `served_pages`; null: none gives way. `newcomer`: the network
// that the new connection comes from, which would pay for it. The first of these rules that finds
// connections decides, and the one that has been quiet for longest gives way:
//
// 1. Connections that wait for their client. One that has waited for less than
//    HttpLimits::stall_timeout is protected, unless it is of the newcomer's network or its payer
//    holds more than the newcomer would: otherwise a client that connects in a loop would close
//    the connections of others before their requests arrive.
// 2. Connections of the payers that hold most, if that is more than the newcomer would hold.
// 3. Connections of the newcomer's network whose client has stalled: it has taken no byte of its
//    reply for HttpLimits::stall_timeout.
// 4. Those that rule 1 protects, if their payer holds as many as the newcomer would.
//
// So a payer holds all places only while no other wants one. Where all clients share one network,
// as behind a proxy without a login, only those that wait or have stalled give way.
//
// A page cannot be aborted: a connection that gives way before its reply ends when the page has
// replied. At most HttpLimits::max_connections of these are left behind; while there are so many,
// rule 2 finds only replies that are being sent.
HttpConnection* next_to_give_way(std::list<HttpConnection>& connections, ServedPages served_pages,
                                 const asio::ip::address& newcomer, const HttpLimits& limits, Instant at);

}  // namespace locksley::daemon
