// Passwords in memory: kept as briefly as possible, then wiped.
#pragma once

#include <sodium.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace locksley::daemon {

inline void wipe_bytes(char* bytes, std::size_t size) { sodium_memzero(bytes, size); }

// Overwrites the bytes of `text`, in a way that the compiler cannot optimise away, and empties it.
inline void wipe(std::string& text) {
  text.resize(text.capacity());
  sodium_memzero(text.data(), text.size());
  text.clear();
}

// A password or token. Its bytes are at one address, which is wiped when the Secret is destroyed; a
// move copies no bytes. A value: not synchronised; nothing blocks.
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

  // The view's pointer is never null: some libraries do not expect that.
  std::string_view view() const {
    return bytes_ ? std::string_view(bytes_.get(), size_) : std::string_view("");
  }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
};

}  // namespace locksley::daemon
