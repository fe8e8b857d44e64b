// A connection that has sent HELLO: whole replies, without reconnection and repetition. Used by one
// thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "proto/clients/cpp/link.h"
#include "proto/clients/cpp/url.h"
#include "proto/reply.h"
#include "proto/reply_reader.h"

namespace locksley::client {

// One connection on which HELLO 3 was sent: it sends bytes and receives replies, and never repeats
// a command. Client is built on it; a program that pipelines by hand (`locksley bench`) uses it
// directly.
//
// Owned by its creator; used from one thread at a time. open(), receive() and read() block until
// their deadline. After any failure the connection is closed, see Link.
class Connection {
 public:
  explicit Connection(int interrupt_fd) : link_(interrupt_fd) {}

  // Connects, and sends HELLO 3 with user and password, and CLIENT SETINFO. A server that refuses
  // the credentials is kRefused with its code.
  Expected<void> open(const Address& address, std::string_view name, Deadline deadline);
  bool is_open() const { return link_.is_open(); }
  void close() { link_.close(); }

  // See Link::send: `bytes` are borrowed until the reply to them was read.
  void send(std::string_view bytes) { link_.send(bytes); }
  Expected<void> flush(Deadline deadline) { return link_.flush(deadline); }
  Expected<void> pause(Deadline until) { return link_.pause(until); }

  // Waits for more bytes; then reader() may have more replies. `bytes`: most bytes of one read.
  Expected<void> receive(Deadline deadline, std::size_t bytes = proto::ReplyReader::kMinimumRead);
  proto::ReplyReader& reader() { return *reader_; }

  // The next reply; it may be an error reply.
  Expected<proto::Reply> read(Deadline deadline);

  // Closes the connection and returns the error.
  std::unexpected<ClientError> protocol_error(std::string_view what);
  const std::string& peer() const { return link_.peer(); }

 private:
  // The error for bytes of the server that are no reply.
  std::unexpected<ClientError> broken_reply();

  Link link_;
  std::unique_ptr<proto::ReplyReader> reader_;  // a new one for each connection
  bool has_received_ = false;
  bool speaks_http_ = false;  // as its first bytes say
};

// An error reply as a ClientError of kind kRefused.
ClientError refused(std::string_view error_reply);

}  // namespace locksley::client
