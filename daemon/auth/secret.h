// Passwords in memory: for as short a time as can be, and wiped after it.
#pragma once

#include <sodium.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace locksley::daemon {

inline void wipe_bytes(char* bytes, std::size_t size) { sodium_memzero(bytes, size); }

// Overwrites what `text` holds, which the compiler may not leave out, and empties it.
inline void wipe(std::string& text) {
  text.resize(text.capacity());
  sodium_memzero(text.data(), text.size());
  text.clear();
}

// A password, or what else nobody should find in the memory later. It lies in one place, which is wiped when
// the Secret is destroyed; moving it moves no bytes.
class Secret {
 public:
  Secret() = default;
  // Wipes `plain`.
  explicit Secret(std::string&& plain) : bytes_(std::make_unique<char[]>(plain.size())), size_(plain.size()) {
    plain.copy(bytes_.get(), size_);
    wipe(plain);
  }
  Secret(Secret&& other) noexcept : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
  Secret& operator=(Secret&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret() {
    if (bytes_) sodium_memzero(bytes_.get(), size_);
  }

  // Never null, which libraries may take no account of.
  std::string_view view() const {
    return bytes_ ? std::string_view(bytes_.get(), size_) : std::string_view("");
  }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
};

}  // namespace locksley::daemon
