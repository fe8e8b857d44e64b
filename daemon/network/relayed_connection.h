// A connection as its network thread sees it: the socket, TLS, and the relay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/loop/user_lines.h"
#include "daemon/network/ready_relays.h"
#include "daemon/network/relay.h"
#include "daemon/tls/channel.h"

namespace locksley::daemon {

// The network thread's end of a connection: moves bytes between the socket, which it owns, and the
// relay, by TLS where there is a channel. epoll watches the socket edge-triggered, so this object
// remembers for which operations the socket is ready.
//
// Owned by its NetworkThread, from its adoption until the I/O thread orders the end. That thread
// only, but for the constructor. Nothing blocks, but for the mutex of the relay. A socket that
// fails is the end of the input and of the output; the connection is there until the I/O thread
// ends it.
class RelayedConnection {
 public:
  // What the connections of a thread have in common while it serves them.
  struct Round {
    std::span<char> scratch;                // for what is read
    std::vector<ReadyRelays::Entry>& news;  // for the I/O thread
    OwnedCounter& waits;                    // for mutexes
  };
  enum class Then : std::uint8_t {
    kWait,  // until the socket is ready, or the I/O thread gives orders
    kMore,  // there is more to move: serve it, after the others
  };

  // `socket`: non-blocking, and from here on its own. `tls`: null: plain; the handshake is over.
  RelayedConnection(int socket, std::unique_ptr<TlsChannel> tls, std::shared_ptr<Relay> relay)
      : socket_(socket), tls_(std::move(tls)), relay_(std::move(relay)), unsent_(relay_->make_buffer()) {}
  // close().
  ~RelayedConnection();
  RelayedConnection(const RelayedConnection&) = delete;
  RelayedConnection& operator=(const RelayedConnection&) = delete;

  int socket() const { return socket_; }

  // Whose it is.
  LineNumber line() const { return line_; }

  // `events`: of epoll. The caller calls serve() next.
  void socket_is_ready(std::uint32_t events);
  // Executes the orders of the I/O thread. True: one of them ended the connection; it has sent as
  // much as the socket takes, and the caller closes it. False: the caller calls serve().
  bool take_orders(Round& round);
  // Moves a few buffers each way, if it can.
  Then serve(Round& round);
  // Whether the last serve() moved more than a small buffer holds.
  bool has_much() const { return has_much_; }
  // To be called if epoll cannot watch the socket.
  void fail(Round& round);
  // Closes the socket. No effect if it is closed.
  void close();
  bool is_closed() const { return socket_ < 0; }

  // It waits in a line of the thread.
  bool is_in_line = false;

 private:
  struct Moved {
    std::size_t bytes;
    bool is_end;  // of the received bytes, or of those that can be sent
  };

  void send(Round& round);
  // False: nothing is left to send.
  bool has_output(Round& round);
  void finish_sending(Round& round);
  void receive(Round& round);
  Moved read(std::span<char> space);
  Moved write(std::string_view bytes);
  void add_news(Relay::News news, Round& round) { round.news.push_back({relay_, news}); }

  int socket_;  // -1: closed
  const std::unique_ptr<TlsChannel> tls_;
  const std::shared_ptr<Relay> relay_;

  RelayBuffer unsent_;  // output that was taken from the relay
  LineNumber line_ = kStrangersLine;
  std::size_t moved_ = 0;  // bytes, by the present serve()
  bool has_much_ = false;
  bool may_have_output_ = false;  // in the relay
  bool is_readable_ = true;       // as far as is known
  bool is_writable_ = true;       // as far as is known
  bool is_hung_up_ = false;       // the peer sends no more bytes: read on until the end
  bool wants_much_ = false;       // the last read filled its space
  bool is_full_ = false;          // the relay takes no more input
  bool is_ended_ = false;         // the input
  bool has_failed_ = false;       // the output
  bool reports_ = false;          // orders of the I/O thread
  bool shuts_ = false;
};

}  // namespace locksley::daemon
