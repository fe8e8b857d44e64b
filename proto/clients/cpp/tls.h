// TLS on the client's side: which servers are trusted, and why a handshake failed. Used by Link,
// and by the daemon's own connection to an upstream daemon (daemon/upstream/). Any thread; only the
// reading of files blocks.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/error.hpp>
#include <asio/ssl/stream.hpp>
#include <memory>
#include <string>

#include "proto/clients/cpp/error.h"
#include "proto/clients/cpp/url.h"

namespace locksley::client {

using TlsStream = asio::ssl::stream<asio::ip::tcp::socket&>;

// A stream over `socket`, which must outlive it, to the daemon at `address`: its certificate must
// be signed by an authority of `address.ca_file`, or one that this machine trusts if that is empty,
// and be for `address.host`, unless it is not verified (`address.verifies`). The error names the
// file, and is kInput.
Expected<std::unique_ptr<TlsStream>> make_tls_stream(asio::ip::tcp::socket& socket, const Address& address);

// Why a handshake failed, for people.
std::string explain_handshake(TlsStream& stream, const asio::error_code& error, const Address& address);

}  // namespace locksley::client
