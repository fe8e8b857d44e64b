#include "daemon/network/relay_buffer.h"

#include <cstring>

namespace locksley::daemon {

namespace {

void wipe(std::string& bytes) { ::explicit_bzero(bytes.data(), bytes.size()); }

}  // namespace

void RelayBuffer::append(std::string_view bytes) {
  const std::size_t size = bytes_.size() + bytes.size();
  if (size > bytes_.capacity()) {
    // std::string itself would double its capacity, which exceeds the bound, and would not wipe its
    // old bytes.
    std::string larger;
    larger.reserve(size <= kKept ? kKept : size <= kSmall ? kSmall : kLarge);
    larger.append(bytes_);
    wipe(bytes_);
    bytes_.swap(larger);
  }
  bytes_.append(bytes);
}

void RelayBuffer::clear() {
  wipe(bytes_);
  if (bytes_.capacity() > kKept) {
    std::string().swap(bytes_);
  } else {
    bytes_.clear();
  }
  consumed_ = 0;
  if (std::exchange(is_large_, false)) large_.give_back();
}

}  // namespace locksley::daemon
