#include "proto/clients/cpp/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <asio/error.hpp>
#include <asio/ip/address.hpp>
#include <system_error>
#include <utility>

namespace locksley::client {
namespace {

using Kind = ClientError::Kind;

// OpenSSL's reason, without the names of its own files; for a file that cannot be opened, the
// system's reason.
std::string reason_of(const asio::error_code& error) {
  const auto code = static_cast<unsigned long>(error.value());
  if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : error.message();
}

std::unexpected<ClientError> bad_file(const std::string& file, const std::string& what,
                                      const asio::error_code& error) {
  ERR_clear_error();
  return client_error(Kind::kInput, file + ": no " + what + " can be read from it: " + reason_of(error));
}

// Never asks the user for a password: a program that waits at an invisible prompt is worse than an
// error.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

Expected<std::unique_ptr<TlsStream>> make_tls_stream(asio::ip::tcp::socket& socket, const Address& address) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  SSL_CTX* const native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_default_passwd_cb(native, no_password);
  SSL_CTX_set_verify(native, address.verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  asio::error_code error;
  if (address.ca_file.empty()) {
    context.set_default_verify_paths(error);
  } else {
    context.load_verify_file(address.ca_file, error);
    if (error) return bad_file(address.ca_file, "certificate of an authority", error);
  }
  if (!address.certificate.empty()) {
    context.use_certificate_chain_file(address.certificate, error);
    if (error) return bad_file(address.certificate, "certificate", error);
    context.use_private_key_file(address.key, asio::ssl::context::pem, error);
    if (error) return bad_file(address.key, "key of that certificate", error);
  }
  auto stream = std::make_unique<TlsStream>(socket, context);
  SSL* const session = stream->native_handle();
  asio::error_code not_a_number;
  asio::ip::make_address(address.host, not_a_number);
  if (not_a_number) {
    SSL_set1_host(session, address.host.c_str());
    SSL_set_tlsext_host_name(session, address.host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), address.host.c_str());
  }
  return stream;
}

std::string explain_handshake(TlsStream& stream, const asio::error_code& error, const Address& address) {
  switch (const long verified = SSL_get_verify_result(stream.native_handle())) {
    case X509_V_OK:
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the server's certificate is not for " + address.host;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the server's certificate has expired";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "no authority that is trusted has signed the server's certificate; " +
             (address.ca_file.empty()
                  ? "--ca-file, LOCKSLEY_CA_FILE or, of an upstream, upstream.ca_file names another"
                  : "those in " + address.ca_file + " have not");
    default:
      return std::string("the server's certificate: ") + X509_verify_cert_error_string(verified);
  }
  if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_WRONG_VERSION_NUMBER) {
    return "the server does not speak TLS on this port: redis:// in place of rediss://?";
  }
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
    return "the connection was closed in the TLS handshake";
  }
  return "the TLS handshake failed: " + reason_of(error);
}

}  // namespace locksley::client
