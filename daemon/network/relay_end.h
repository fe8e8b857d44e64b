// A connection of a network thread as the I/O thread sees it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/network/relay.h"

namespace locksley::daemon {

class NetworkThread;
class RelayedConnection;

// A connection that waits on the I/O thread until its RelayEnd can read or write.
class RelayOwner {
 public:
  // There is something to read, room to write, or everything is sent: as far as the owner waits for
  // it.
  virtual void socket_is_ready() = 0;

 protected:
  ~RelayOwner() = default;
};

// The I/O thread's end of a connection whose socket a network thread has: what a non-blocking
// socket is to a connection of the I/O thread alone. The network thread sends the bytes that it
// takes, and it returns the bytes that the network thread has received.
//
// Owned by the Transport of a connection. The network thread and the owner outlive it. The I/O
// thread only. Nothing blocks, but for the mutex of the relay. A peer that has gone is an end of
// the input, or a send() that fails.
class RelayEnd {
 public:
  // `connection` belongs to `thread`, and is there until close().
  RelayEnd(std::shared_ptr<Relay> relay, NetworkThread& thread, RelayedConnection& connection,
           RelayOwner& owner) LOCKSLEY_REQUIRES(kIoThread);
  // Closes it.
  ~RelayEnd();
  RelayEnd(const RelayEnd&) = delete;
  RelayEnd& operator=(const RelayEnd&) = delete;

  struct Received {
    std::size_t bytes;
    bool is_end;  // nothing comes after them
  };
  Received receive(std::span<std::byte> space) LOCKSLEY_REQUIRES(kIoThread);
  // There may be something to receive now.
  bool may_have_input() const { return has_news_ || !taken_.empty(); }
  // How many bytes there was room for; none: the peer has gone.
  std::optional<std::size_t> send(std::span<const std::string_view> views) LOCKSLEY_REQUIRES(kIoThread);
  // Whether the socket has taken all sent bytes, or the peer has gone. If false, the owner is
  // notified once it is true.
  bool is_sent() LOCKSLEY_REQUIRES(kIoThread);
  // The owner is notified, not within the call, as soon as there are bytes to receive, or room for
  // bytes that send() did not take.
  void await_input() LOCKSLEY_REQUIRES(kIoThread);
  void await_room() LOCKSLEY_REQUIRES(kIoThread);
  // Tells the peer that no more bytes will follow, once everything is sent.
  void shut() LOCKSLEY_REQUIRES(kIoThread);
  // As Relay::set_line().
  void set_line(LineNumber line) LOCKSLEY_REQUIRES(kIoThread);
  // Discards the received bytes. True: nothing more comes.
  bool discard() LOCKSLEY_REQUIRES(kIoThread);

  // For ReadyRelays, which must not use this object afterwards: the owner may destroy it within
  // this call.
  void take_news(Relay::News news) LOCKSLEY_REQUIRES(kIoThread);

 private:
  void take_input() LOCKSLEY_REQUIRES(kIoThread);
  void give_order(Relay::Order order) LOCKSLEY_REQUIRES(kIoThread);

  const std::shared_ptr<Relay> relay_;
  NetworkThread& thread_;
  RelayedConnection& connection_;
  RelayOwner& owner_;

  RelayBuffer taken_;              // input that was taken from the relay
  bool is_ended_ = false;          // nothing comes after taken_
  bool has_news_ = false;          // there may be more in the relay
  bool awaits_input_ = false;      // the owner
  bool awaits_room_ = false;       // the owner
  bool is_short_of_room_ = false;  // the relay will tell
  bool is_sent_ = true;            // everything that was put into the relay
  bool asks_if_sent_ = false;      // the network thread will report
  bool has_sent_since_ = false;    // since it was asked
};

}  // namespace locksley::daemon
