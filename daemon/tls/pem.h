// Certificates and keys from PEM files, with errors that name the file and the reason.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <chrono>
#include <expected>
#include <memory>
#include <string>
#include <vector>

namespace locksley::daemon {

// OpenSSL's objects, which are freed with their pointers.
struct X509Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Certificate = std::unique_ptr<X509, X509Free>;
using PrivateKey = std::unique_ptr<EVP_PKEY, KeyFree>;
using SystemTime = std::chrono::system_clock::time_point;

// The functions that take a file's name block on that file. Their errors begin with the name. Any
// thread.

// All certificates in a file, in their order; at least one.
std::expected<std::vector<Certificate>, std::string> read_certificates(const std::string& file);
// The private key in a file. An encrypted key is refused: a daemon cannot ask for its password.
std::expected<PrivateKey, std::string> read_private_key(const std::string& file);
// Whether every user of this machine may read the file.
bool is_readable_by_all(const std::string& file);

SystemTime valid_from(const X509& certificate);
SystemTime valid_until(const X509& certificate);
// "2027-01-31 12:00:00 UTC".
std::string to_text(SystemTime time);
// The common name of the subject; the last if there are several, because that is the most specific.
// Empty if there is none, or if the name contains a NUL.
std::string common_name(const X509& certificate);

// The oldest error in the calling thread's OpenSSL error queue, which is emptied; "" if there is
// none.
std::string take_openssl_error();

}  // namespace locksley::daemon
