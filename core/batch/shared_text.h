// A text that several objects share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace locksley {

// A constant text, or none. Copies share it, so the pattern of a range, which may be many megabytes
// long, is in memory only once, though its batch and the write to the store both have it.
//
// A value; any thread. Nothing blocks; only allocation can fail. The last copy frees the text.
class SharedText {
 public:
  SharedText() = default;
  explicit(false) SharedText(std::nullopt_t) {}
  explicit(false) SharedText(std::string text)
      : text_(std::make_shared<const std::string>(std::move(text))) {}
  explicit(false) SharedText(const char* text) : SharedText(std::string(text)) {}
  explicit(false) SharedText(std::optional<std::string> text) {
    if (text) *this = SharedText(*std::move(text));
  }

  bool has_value() const { return text_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  // These need has_value().
  const std::string& operator*() const { return *text_; }
  const std::string* operator->() const { return text_.get(); }

  // Whether both have the same text, or none.
  friend bool operator==(const SharedText& a, const SharedText& b) {
    if (a.text_ == b.text_) return true;
    return a.has_value() && b.has_value() && *a == *b;
  }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace locksley
