// What a listening side needs for TLS: certificate, key, and what is spoken.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "daemon/tls/pem.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

struct SslFree {
  void operator()(SSL* session) const { SSL_free(session); }
};
using TlsSession = std::unique_ptr<SSL, SslFree>;

enum class TlsUse : std::uint8_t {
  kWire,  // the wire protocol: no ALPN, as Redis
  kHttp,  // offers http/1.1
};

// Certificate chain, key and client authority of one listening side, read once; a reload reads them into a
// new one. TLS 1.2 with ECDHE and AEAD ciphers, and TLS 1.3; the server's order counts; no compression, no
// renegotiation, no session tickets (README.md says why).
//
// Shared by the side that listens and the connections that began with it, the last of which drops it; so old
// ones go on with what they began with. Constant after load(), and any thread may use it.
class TlsContext {
 public:
  // Reads the files; blocks for as long as that takes. `section` is for messages: "listen.tls". The errors,
  // one or more, name the key, the file and the reason.
  static std::expected<std::shared_ptr<const TlsContext>, std::vector<std::string>> load(
      const config::Tls& files, TlsUse use, std::string_view section);

  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // For one connection, as server. The caller gives it its BIOs. Null: out of memory.
  TlsSession make_session() const { return TlsSession(SSL_new(context_)); }

  // When the first certificate of the chain that does so expires.
  SystemTime expires_at() const { return expires_at_; }
  // What an operator should know: certificates that are expired or not yet valid, a key that all may read.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  TlsContext() = default;
  void configure(TlsUse use);
  void use_certificate(const config::Tls& files, std::string_view section,
                       std::vector<std::string>& problems);
  void ask_for_certificates(const config::Tls& files, std::string_view section,
                            std::vector<std::string>& problems);

  SSL_CTX* context_ = nullptr;
  SystemTime expires_at_ = SystemTime::max();
  std::vector<std::string> warnings_;
};

// What both sides of the daemon speak; null: plain TCP.
struct TlsContexts {
  std::shared_ptr<const TlsContext> listen;
  std::shared_ptr<const TlsContext> http;
};

void log_warnings(const TlsContexts& contexts, spdlog::logger& log);

// Reads what the configuration names. Changes nothing; all or none.
std::expected<TlsContexts, std::vector<std::string>> load_tls(const config::Config& config);

}  // namespace locksley::daemon
