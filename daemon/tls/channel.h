// TLS over one non-blocking socket.
#pragma once

#include <openssl/bio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "daemon/tls/context.h"

namespace locksley::daemon {

// The server's end of TLS over a socket that somebody else owns and waits for. No call blocks: each does what
// the socket allows, and says what to wait for before it is made again.
//
// Owned by one connection; used by one thread at a time. The socket outlives it, and so does nothing else:
// it holds its context. What the peer sends can only end in kFailed; error() then says why, and nothing but
// the destructor may be called.
class TlsChannel {
 public:
  enum class Then : std::uint8_t {
    kDone,       // all that was asked for; there may be more to do at once
    kWantRead,   // when the socket is readable
    kWantWrite,  // when it is writable
    kEnd,        // the peer has closed its side
    kFailed,
  };
  struct Moved {
    std::size_t bytes;
    Then then;
  };

  // Null: out of memory.
  static std::unique_ptr<TlsChannel> make(std::shared_ptr<const TlsContext> context, int socket);
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  // A step of the handshake; kDone: it is over. Costs 0.3 ms and more, by the kind of key. If
  // it fails, the peer has been told, as far as the socket took it.
  Then handshake();

  // Reads until `into` is full, or kMostAtOnce (kDone), or nothing more has come (kWantRead: nothing readable
  // is left behind, neither here nor in the socket). Bytes that were read before an end count.
  Moved read(std::span<std::byte> into);

  // Writes what the socket takes of the views, in order. What was not taken must come again first, at the
  // same place in memory or another, and more may stand behind it. kDone: all, or kMostAtOnce.
  Moved write(std::span<const std::string_view> views);

  // Tells the peer that nothing more comes (close_notify), if the handshake is over. A socket that does not
  // take it at once misses it: the end of the connection says the same.
  void say_end();

  // Of the peer's certificate, which has been verified; empty: it has shown none.
  std::string peer_common_name() const;
  const std::string& error() const { return error_; }

  // What TLS begins with: a record of the handshake.
  static constexpr unsigned char kFirstByte = SSL3_RT_HANDSHAKE;
  // Others have their turn after so much: some 0.2 ms of encryption.
  static constexpr std::size_t kMostAtOnce = 256 * 1024;

 private:
  // What the BIO knows of the socket.
  struct Wire {
    int socket;
    std::size_t may_read = 0;  // bytes, before others have their turn
    bool is_drained = false;   // a read got less than it had room for: no use in another
    bool is_paused = false;    // may_read was used up
    bool is_end = false;
  };
  struct MethodFree {
    void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
  };

  TlsChannel(std::shared_ptr<const TlsContext> context, int socket);
  static int read_socket(BIO* bio, char* into, int size);
  static int write_socket(BIO* bio, const char* from, int size);
  static long control(BIO* bio, int command, long number, void* pointer);
  void begin_reading(std::size_t most);
  Then outcome(int result);

  const std::shared_ptr<const TlsContext> context_;
  Wire wire_;
  std::unique_ptr<BIO_METHOD, MethodFree> method_;
  TlsSession session_;
  std::string error_;
};

}  // namespace locksley::daemon
