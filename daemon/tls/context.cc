#include "daemon/tls/context.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "core/base/job.h"

namespace locksley::daemon {
namespace {

// For TLS 1.2: only ciphers with forward secrecy and authenticated encryption. All ciphers of TLS
// 1.3 are such.
constexpr const char* kCiphers =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr const char* kGroups = "X25519:P-256:P-384";

// A client that offers protocols without this one is refused, as RFC 7301 demands.
int choose_http(SSL*, const unsigned char** chosen, unsigned char* length, const unsigned char* offered,
                unsigned int offered_bytes, void*) {
  static constexpr unsigned char kHttp[] = "\x08http/1.1";
  unsigned char* out = nullptr;
  const int result = SSL_select_next_proto(&out, length, kHttp, sizeof(kHttp) - 1, offered, offered_bytes);
  if (result != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = out;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

std::expected<std::shared_ptr<const TlsContext>, std::vector<std::string>> TlsContext::load(
    const config::Tls& files, TlsUse use, std::string_view section) {
  const std::shared_ptr<TlsContext> context(new TlsContext);
  std::vector<std::string> problems;
  context->context_ = SSL_CTX_new(TLS_server_method());
  if (context->context_ == nullptr) {
    problems.push_back(fmt::format("{}: {}", section, take_openssl_error()));
    return std::unexpected(std::move(problems));
  }
  if (!context->configure(use)) {
    problems.push_back(fmt::format("{}: OpenSSL refuses the version, the ciphers or the groups: {}", section,
                                   take_openssl_error()));
    return std::unexpected(std::move(problems));
  }
  context->use_certificate(files, section, problems);
  if (!files.client_ca.empty()) context->ask_for_certificates(files, section, problems);
  ERR_clear_error();
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return context;
}

bool TlsContext::configure(TlsUse use) {
  if (SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context_, kCiphers) != 1 || SSL_CTX_set1_groups_list(context_, kGroups) != 1) {
    return false;
  }
  // A peer that closes without close_notify counts as one that closes. A truncated command is not
  // executed in any case, because commands state their length.
  SSL_CTX_set_options(context_, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                    SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                    SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context_, 1);  // one read of the socket for all that has arrived, not two a record
  if (use == TlsUse::kHttp) SSL_CTX_set_alpn_select_cb(context_, choose_http, nullptr);
  return true;
}

void TlsContext::use_certificate(const config::Tls& files, std::string_view section,
                                 std::vector<std::string>& problems) {
  auto chain = read_certificates(files.certificate);
  const auto key = read_private_key(files.key);
  if (!chain) problems.push_back(fmt::format("{}.certificate: {}", section, chain.error()));
  if (!key) problems.push_back(fmt::format("{}.key: {}", section, key.error()));
  if (!chain || !key) return;
  X509* const own = chain->front().get();
  if (X509_check_private_key(own, key->get()) != 1) {
    problems.push_back(fmt::format("{}.key: {}: is not the key of the certificate in {}", section, files.key,
                                   files.certificate));
    return;
  }
  // OpenSSL refuses weak certificates here: RSA keys below 2,048 bits, signatures with SHA-1.
  if (SSL_CTX_use_certificate(context_, own) != 1 || SSL_CTX_use_PrivateKey(context_, key->get()) != 1) {
    problems.push_back(
        fmt::format("{}.certificate: {}: {}", section, files.certificate, take_openssl_error()));
    return;
  }
  const SystemTime now = wall_now();
  for (std::size_t i = 0; i < chain->size(); ++i) {
    const X509& each = *(*chain)[i];
    if (i > 0 && SSL_CTX_add1_chain_cert(context_, (*chain)[i].get()) != 1) {
      problems.push_back(fmt::format("{}.certificate: {}: certificate {}: {}", section, files.certificate,
                                     i + 1, take_openssl_error()));
      return;
    }
    expires_at_ = std::min(expires_at_, valid_until(each));
    const std::string_view which = i == 0 ? "the certificate" : "a certificate of the chain";
    if (valid_until(each) <= now) {
      warnings_.push_back(fmt::format("{}.certificate: {}: {} expired on {}", section, files.certificate,
                                      which, to_text(valid_until(each))));
    } else if (valid_from(each) > now) {
      warnings_.push_back(fmt::format("{}.certificate: {}: {} is not valid before {}", section,
                                      files.certificate, which, to_text(valid_from(each))));
    }
  }
  if (is_readable_by_all(files.key)) {
    warnings_.push_back(
        fmt::format("{}.key: {}: every user of this machine can read the key", section, files.key));
  }
}

void TlsContext::ask_for_certificates(const config::Tls& files, std::string_view section,
                                      std::vector<std::string>& problems) {
  const auto authorities = read_certificates(files.client_ca);
  if (!authorities) {
    problems.push_back(fmt::format("{}.client_ca: {}", section, authorities.error()));
    return;
  }
  X509_STORE* const trusted = SSL_CTX_get_cert_store(context_);
  for (const Certificate& authority : *authorities) {
    // The names are sent to the client, so that it can choose a certificate of these authorities.
    if (X509_STORE_add_cert(trusted, authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context_, authority.get()) != 1) {
      problems.push_back(fmt::format("{}.client_ca: {}: {}", section, files.client_ca, take_openssl_error()));
      return;
    }
  }
  for (const Certificate& authority : *authorities) {
    unsigned char* der = nullptr;
    const int bytes = i2d_X509(authority.get(), &der);
    if (bytes > 0) authorities_.append(reinterpret_cast<const char*>(der), static_cast<std::size_t>(bytes));
    OPENSSL_free(der);
  }
  authorities_ += files.clients == config::ClientCertificates::kRequired ? "required" : "optional";
  const int must =
      files.clients == config::ClientCertificates::kRequired ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | must, nullptr);
}

bool TlsContext::demands_certificates() const {
  return (SSL_CTX_get_verify_mode(context_) & SSL_VERIFY_FAIL_IF_NO_PEER_CERT) != 0;
}

PeerCertificate::PeerCertificate(SSL& session)
    : certificate_(SSL_get1_peer_certificate(&session)),
      chain_(certificate_ ? X509_chain_up_ref(SSL_get_peer_cert_chain(&session)) : nullptr) {}

std::string PeerCertificate::common_name() const {
  return certificate_ ? daemon::common_name(*certificate_) : std::string();
}

bool TlsContext::has_issued(const PeerCertificate& peer) const {
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> check(X509_STORE_CTX_new(),
                                                                              X509_STORE_CTX_free);
  const bool is_issued =
      peer.get() != nullptr && check != nullptr &&
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context_), peer.get(), peer.chain()) == 1 &&
      X509_STORE_CTX_set_default(check.get(), "ssl_client") == 1 && X509_verify_cert(check.get()) == 1;
  ERR_clear_error();
  return is_issued;
}

void log_warnings(const TlsContexts& contexts, spdlog::logger& log) {
  for (const auto& context : {contexts.listen, contexts.http, contexts.workers}) {
    if (!context) continue;
    for (const std::string& warning : context->warnings()) log.warn("{}", warning);
  }
}

std::expected<TlsContexts, std::vector<std::string>> load_tls(const config::Config& config) {
  TlsContexts contexts;
  std::vector<std::string> problems;
  const auto load = [&](const config::Tls& files, TlsUse use, std::string_view section,
                        std::shared_ptr<const TlsContext>& into) {
    if (files.certificate.empty()) return;
    auto loaded = TlsContext::load(files, use, section);
    if (loaded) {
      into = std::move(*loaded);
    } else {
      std::ranges::move(loaded.error(), std::back_inserter(problems));
    }
  };
  load(config.listen.tls, TlsUse::kWire, "listen.tls", contexts.listen);
  load(config.http.tls, TlsUse::kHttp, "http.tls", contexts.http);
  load(config.workers.tls, TlsUse::kWire, "workers.tls", contexts.workers);
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return contexts;
}

}  // namespace locksley::daemon
