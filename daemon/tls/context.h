// The TLS settings of a listening side: certificate, key, versions and ciphers.
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

// A TLS session of OpenSSL, which is freed with its pointer.
struct SslFree {
  void operator()(SSL* session) const { SSL_free(session); }
};
using TlsSession = std::unique_ptr<SSL, SslFree>;

using CertificateChain = STACK_OF(X509);

// The certificate that the peer of a session has shown, with its chain. It is independent of the
// session, so that one thread may check it while another one uses the session.
class PeerCertificate {
 public:
  PeerCertificate() = default;  // none was shown
  // After the handshake.
  explicit PeerCertificate(SSL& session);

  // Empty: none was shown.
  std::string common_name() const;
  X509* get() const { return certificate_.get(); }
  CertificateChain* chain() const { return chain_.get(); }

 private:
  struct ChainFree {
    void operator()(CertificateChain* chain) const { sk_X509_pop_free(chain, X509_free); }
  };
  Certificate certificate_;
  std::unique_ptr<CertificateChain, ChainFree> chain_;
};

// The protocol that a port speaks inside TLS.
enum class TlsUse : std::uint8_t {
  kWire,  // the wire protocol: no ALPN, as Redis
  kHttp,  // offers http/1.1
};

// The certificate chain, key and client authorities of one listening side, as they were in their
// files at load(). TLS 1.3, and TLS 1.2 with ECDHE and AEAD ciphers; the server's order of ciphers;
// no compression, no renegotiation, no session tickets (README.md says why).
//
// Shared by the listening side and the connections that began with this context: the last of these
// drops it. So a connection keeps its context across a reload, which loads a new context. Constant
// after load(): any thread. Only load() blocks, on the files.
class TlsContext {
 public:
  // Reads the files. `section`: the section of the configuration, for messages, such as
  // "listen.tls". The errors, one or more, name the key, the file and the reason.
  static std::expected<std::shared_ptr<const TlsContext>, std::vector<std::string>> load(
      const config::Tls& files, TlsUse use, std::string_view section);

  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A session for one connection, as server. The caller sets its BIOs. Null: out of memory.
  TlsSession make_session() const { return TlsSession(SSL_new(context_)); }

  // Whether a connection must show a certificate of these authorities.
  bool demands_certificates() const;
  // Whether the certificate leads to one of the authorities of client_ca, and is valid now. False
  // if none was shown, or if there are no authorities. Takes some 0.1 ms.
  bool has_issued(const PeerCertificate& peer) const;
  // Whether both ask for certificates of the same authorities; null: TLS is off.
  bool has_authorities_of(const TlsContext* other) const {
    return other != nullptr && authorities_ == other->authorities_;
  }

  // The time when the first certificate of the chain expires.
  SystemTime expires_at() const { return expires_at_; }
  // For the operator: certificates that are expired or not yet valid, a key that every user can
  // read.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  TlsContext() = default;
  bool configure(TlsUse use);  // false: OpenSSL refuses a setting, and has a reason in its queue
  void use_certificate(const config::Tls& files, std::string_view section,
                       std::vector<std::string>& problems);
  void ask_for_certificates(const config::Tls& files, std::string_view section,
                            std::vector<std::string>& problems);

  SSL_CTX* context_ = nullptr;
  std::string authorities_;  // of client_ca, DER, and whether certificates of theirs are demanded
  SystemTime expires_at_ = SystemTime::max();
  std::vector<std::string> warnings_;
};

// The contexts of the listening sides; null: plain TCP.
struct TlsContexts {
  std::shared_ptr<const TlsContext> listen;
  std::shared_ptr<const TlsContext> http;
  std::shared_ptr<const TlsContext> workers;
};

// Writes the warnings of all contexts to the log.
void log_warnings(const TlsContexts& contexts, spdlog::logger& log);

// Loads the contexts that the configuration names: all, or none and all errors. Blocks on the
// files.
std::expected<TlsContexts, std::vector<std::string>> load_tls(const config::Config& config);

}  // namespace locksley::daemon
