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

// The server's end of TLS over a non-blocking socket. The connection owns the socket and waits for
// it; no call here blocks. Each call goes as far as the socket is ready, and returns what the
// caller must wait for before it repeats the call.
//
// Owned by one connection, whose socket outlives it; keeps its context alive. One thread at a time.
// Whatever the peer sends, the worst outcome is kFailed: error() then says why, and no other member
// may be called except the destructor.
class TlsChannel {
 public:
  enum class Then : std::uint8_t {
    kDone,       // the call did everything; the next one need not wait
    kWantRead,   // repeat it when the socket is readable
    kWantWrite,  // repeat it when the socket is writable
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

  // One step of the handshake; kDone: it is complete. Takes 0.3 ms or more, depending on the kind
  // of key. After a failure an alert has been sent to the peer, if the socket took it.
  Then handshake();

  // Reads until `into` is full or kMostAtOnce bytes are read (kDone), or until neither this channel
  // nor the socket has more to read (kWantRead). Bytes that were read before an end or a failure
  // are in Moved::bytes.
  Moved read(std::span<std::byte> into);

  // Writes as many bytes of the views as the socket takes, in order. kDone: all bytes, or
  // kMostAtOnce of them. The next call must begin with the bytes that were not taken, at the same
  // address or another; more may follow them.
  Moved write(std::span<const std::string_view> views);

  // Sends close_notify, if the handshake is complete. If the socket does not take close_notify at
  // once, it is not sent: the peer then learns of the end when the connection closes.
  void say_end();

  // The common name of the peer's verified certificate; empty: the peer has shown none.
  std::string peer_common_name() const;
  // The same certificate, with its chain.
  PeerCertificate peer_certificate() const { return PeerCertificate(*session_); }
  // The handshake is complete.
  bool is_established() const { return SSL_is_init_finished(session_.get()) == 1; }
  const std::string& error() const { return error_; }

  // The first byte of every TLS connection: the type of a handshake record.
  static constexpr unsigned char kFirstByte = SSL3_RT_HANDSHAKE;
  // The most bytes of one call: some 0.2 ms of encryption, so that other connections are not held
  // up.
  static constexpr std::size_t kMostAtOnce = 256 * 1024;

 private:
  // The BIO's view of the socket.
  struct Wire {
    int socket;
    std::size_t may_read = 0;  // bytes that this call may still read
    bool is_drained = false;   // a read returned less than it had room for: the socket is empty
    bool is_paused = false;    // may_read is used up
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
