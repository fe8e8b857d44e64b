#include "proto/clients/cpp/batch_id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace locksley::client {

std::string random_batch_id() {
  std::array<unsigned char, 16> bits{};
  // Up to 256 bytes come whole; a signal can interrupt the call only before the kernel's generator
  // is ready.
  while (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    if (errno != EINTR) std::abort();  // no such system call: Linux before 3.17
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (const unsigned char byte : bits) {
    id.push_back(kDigits[byte >> 4]);
    id.push_back(kDigits[byte & 15]);
  }
  return id;
}

std::string likely_name(const proto::BatchOptions& options) {
  const std::size_t slash = options.customer.find('/');
  if (slash == std::string::npos) return options.id;
  return options.customer.substr(0, slash + 1) + options.id;
}

}  // namespace locksley::client
