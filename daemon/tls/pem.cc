#include "daemon/tls/pem.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <string_view>
#include <system_error>

namespace locksley::daemon {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // more than the list of all authorities of a Debian system

struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioFree>;

std::expected<std::string, std::string> read_file(const std::string& file) {
  const auto failed = [&](std::string_view what) {
    return std::unexpected(fmt::format("{}: {}", file, what));
  };
  const auto system_says = [] { return std::generic_category().message(errno); };
  // O_NONBLOCK: the name may be that of a pipe without a writer.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return failed(system_says());
  std::string text;
  std::string problem;
  struct stat status{};
  if (::fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode)) {
    problem = "is not a file";
  } else {
    std::string block(64 * 1024, '\0');
    for (ssize_t got = 1; got > 0 && text.size() <= kMostBytes;) {
      got = ::read(descriptor, block.data(), block.size());
      if (got < 0) problem = system_says();
      if (got > 0) text.append(block, 0, static_cast<std::size_t>(got));
    }
    if (text.size() > kMostBytes) problem = fmt::format("is larger than {} bytes", kMostBytes);
  }
  ::close(descriptor);
  if (!problem.empty()) return failed(problem);
  return text;
}

Bio view_of(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

SystemTime to_time(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

// OpenSSL's callback for the password of a key: returns none, and records that it was asked.
int note_encrypted(char*, int, int, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return -1;
}

}  // namespace

std::string take_openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return {};
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("OpenSSL error {:#x}", code);
}

std::expected<std::vector<Certificate>, std::string> read_certificates(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  const Bio bio = view_of(*text);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (X509* next = PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(next);
  }
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = take_openssl_error();
  if (!is_end) {
    return std::unexpected(
        fmt::format("{}: certificate {} is damaged: {}", file, certificates.size() + 1, reason));
  }
  if (certificates.empty()) return std::unexpected(file + ": holds no certificate in PEM form");
  return certificates;
}

std::expected<PrivateKey, std::string> read_private_key(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  const Bio bio = view_of(*text);
  bool is_encrypted = false;
  ERR_clear_error();
  PrivateKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, note_encrypted, &is_encrypted));
  // OpenSSL 3 reports "unsupported" for a missing key and for a damaged one alike.
  const bool is_missing = text->find("PRIVATE KEY-----") == std::string::npos;
  const std::string reason = take_openssl_error();
  if (key) return key;
  if (is_encrypted) {
    return std::unexpected(file +
                           ": the key is encrypted, and a daemon cannot ask for its password; "
                           "`openssl pkey` removes the encryption");
  }
  if (is_missing) return std::unexpected(file + ": holds no private key in PEM form");
  return std::unexpected(fmt::format("{}: the key is damaged: {}", file, reason));
}

bool is_readable_by_all(const std::string& file) {
  struct stat status{};
  return ::stat(file.c_str(), &status) == 0 && (status.st_mode & S_IROTH) != 0;
}

SystemTime valid_from(const X509& certificate) { return to_time(X509_get0_notBefore(&certificate)); }

SystemTime valid_until(const X509& certificate) { return to_time(X509_get0_notAfter(&certificate)); }

std::string to_text(SystemTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string common_name(const X509& certificate) {
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  int last = -1;
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) last = at;
  if (last < 0) return {};
  unsigned char* bytes = nullptr;
  const int length =
      ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last)));
  if (length < 0) {
    ERR_clear_error();
    return {};
  }
  std::string name(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
  OPENSSL_free(bytes);
  // A name such as "root\0.example", which some programs read as "root", is an old attack.
  return name.find('\0') == std::string::npos ? name : std::string();
}

}  // namespace locksley::daemon
