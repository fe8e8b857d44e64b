#include "core/payload.h"

#include <charconv>
#include <utility>
#include <vector>

namespace locksley {
namespace {

void append_decimal(std::string& text, std::int64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  text.append(digits, end);
}

}  // namespace

RangePayloads::RangePayloads(std::int64_t low, std::optional<std::string> pattern)
    : low_(low), pattern_(std::move(pattern)) {}

void RangePayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) {
  scratch.clear();
  std::vector<std::size_t> ends;
  const auto number_at = [&](std::size_t i) {
    // Unsigned arithmetic wraps as two's complement does: low_ may be negative.
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low_) + first + i);
  };
  // A 64-bit number has at most 20 characters, so without a pattern the scratch never moves once reserved;
  // with one, the views are made when its length is known.
  if (!pattern_) {
    scratch.resize(out.size() * 20);
    char* position = scratch.data();
    for (std::size_t i = 0; i < out.size(); ++i) {
      char* const end = std::to_chars(position, position + 20, number_at(i)).ptr;
      out[i] = {position, static_cast<std::size_t>(end - position)};
      position = end;
    }
    return;
  }
  ends.reserve(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t from = 0;
    for (std::size_t at; (at = pattern_->find("{}", from)) != std::string::npos; from = at + 2) {
      scratch.append(*pattern_, from, at - from);
      append_decimal(scratch, number_at(i));
    }
    scratch.append(*pattern_, from);
    ends.push_back(scratch.size());
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::string_view(scratch).substr(begin, ends[i] - begin);
    begin = ends[i];
  }
}

std::uint64_t RangePayloads::memory_bytes() const {
  return sizeof(*this) + (pattern_ ? pattern_->capacity() : 0);
}

StringPayloads::StringPayloads(std::vector<std::string> payloads) : payloads_(std::move(payloads)) {}

void StringPayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = payloads_.at(first + i);
}

std::uint64_t StringPayloads::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& payload : payloads_) bytes += sizeof(payload) + payload.size();
  return bytes;
}

}  // namespace locksley
