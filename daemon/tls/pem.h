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

struct X509Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Certificate = std::unique_ptr<X509, X509Free>;
using PrivateKey = std::unique_ptr<EVP_PKEY, KeyFree>;
using SystemTime = std::chrono::system_clock::time_point;

// All functions: any thread; they read a file, so they block for as long as that takes. The error begins with
// the file's name.

// Every certificate of a file, in its order; at least one.
std::expected<std::vector<Certificate>, std::string> read_certificates(const std::string& file);
// The private key of a file; one that is encrypted is refused, as nobody is there to be asked.
std::expected<PrivateKey, std::string> read_private_key(const std::string& file);
// Whether every user of this machine may read the file.
bool is_readable_by_all(const std::string& file);

SystemTime valid_from(const X509& certificate);
SystemTime valid_until(const X509& certificate);
// "2027-01-31 12:00:00 UTC".
std::string to_text(SystemTime time);
// Of the subject; empty if there is none, or one that is no text. Of several the last, which is the most
// specific.
std::string common_name(const X509& certificate);

// What OpenSSL's error queue of this thread says, oldest first, and empties it; "" if there is nothing.
std::string take_openssl_error();

}  // namespace locksley::daemon
