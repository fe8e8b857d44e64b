// The error of the client library, and the result of a call that can fail. Plain values.
#pragma once

#include <expected>
#include <string>

namespace locksley::client {

// Why a call of the client library failed. `kind` tells the caller what to do about it; `message`
// is one line for people and names the operation that failed.
struct ClientError {
  enum class Kind {
    kAddress,      // the address, the URL or another argument is invalid; nothing was sent
    kUnavailable,  // no connection, or it broke and the client could not reconnect in time
    kTimeout,      // connected, but the reply did not arrive in time
    kInterrupted,  // ClientOptions::interrupt_fd became readable
    kProtocol,     // the reply is none that Locksley sends
    kRefused,      // an error reply; `code` is its first word, as in PROTOCOL.md
    kInput,        // an input of the caller cannot be read
    kLocal,        // another failure on the caller's side, such as an output that cannot be written
  };

  Kind kind = Kind::kUnavailable;
  std::string code = {};  // NOBATCH, QUEUEFULL, ...; empty unless kRefused
  std::string message = {};
};

template <class T>
using Expected = std::expected<T, ClientError>;

inline std::unexpected<ClientError> client_error(ClientError::Kind kind, std::string message) {
  return std::unexpected(ClientError{kind, {}, std::move(message)});
}

}  // namespace locksley::client
