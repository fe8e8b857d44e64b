#pragma once

#include <expected>
#include <string>

namespace locksley::client {

// Why a call of the client library did not do what it says. What the caller can do about it hangs on `kind`;
// `message` is one line for people and names what was tried.
struct ClientError {
  enum class Kind {
    kAddress,      // the address or URL, or another argument, makes no sense; nothing was sent
    kUnavailable,  // no connection, or it broke and could not be made again in time
    kTimeout,      // connected, but the time given ran out before the reply
    kInterrupted,  // Options::interrupt_fd became readable
    kProtocol,     // the other side answered something that Locksley never answers
    kRefused,      // an error reply; `code` is its first word, as in PROTOCOL.md
    kInput,        // an input of the caller's cannot be read
    kLocal,        // the caller's own side failed otherwise: an output, a visitor that said stop
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
