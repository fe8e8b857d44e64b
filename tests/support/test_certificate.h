#pragma once

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace locksley::testing {

// A self-signed certificate, and its key, as PEM files in a folder of the test's own.
class TestCertificate {
 public:
  struct Options {
    std::string name = "test";
    long from_seconds = -3600;  // from now
    long until_seconds = 3600;
    int rsa_bits = 0;  // 0: P-256
  };

  explicit TestCertificate(const Options& options)
      : folder_(std::filesystem::path(::testing::TempDir()) /
                (std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
                 options.name.c_str() + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        options.rsa_bits == 0 ? EVP_EC_gen("P-256") : EVP_RSA_gen(static_cast<unsigned>(options.rsa_bits)),
        EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    X509* const x = certificate.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), options.from_seconds);
    X509_gmtime_adj(X509_getm_notAfter(x), options.until_seconds);
    X509_set_pubkey(x, key.get());
    X509_NAME* const subject = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(options.name.data()),
                               static_cast<int>(options.name.size()), -1, 0);
    X509_set_issuer_name(x, subject);
    X509_sign(x, key.get(), EVP_sha256());
    write(certificate_file(), [&](BIO* out) { PEM_write_bio_X509(out, x); });
    write(key_file(),
          [&](BIO* out) { PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
    write(encrypted_key_file(), [&](BIO* out) {
      PEM_write_bio_PrivateKey(out, key.get(), EVP_aes_128_cbc(), nullptr, 0, nullptr,
                               const_cast<char*>("secret"));
    });
  }
  ~TestCertificate() { std::filesystem::remove_all(folder_); }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  std::string certificate_file() const { return folder_ / "certificate.pem"; }
  std::string key_file() const { return folder_ / "key.pem"; }
  std::string encrypted_key_file() const { return folder_ / "encrypted.pem"; }
  std::string file_with(const std::string& text) const {
    std::ofstream(folder_ / "text.pem") << text;
    return folder_ / "text.pem";
  }

 private:
  template <class Write>
  static void write(const std::string& file, Write write_to) {
    BIO* const out = BIO_new_file(file.c_str(), "w");
    write_to(out);
    BIO_free(out);
    std::filesystem::permissions(file,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }

  const std::filesystem::path folder_;
};

}  // namespace locksley::testing
