#include "core/batch/payload.h"

#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

namespace locksley {
namespace {

constexpr std::size_t kMostDigits = 20;  // of a signed 64-bit number, with its sign

void append_decimal(std::string& text, std::int64_t number) {
  char digits[kMostDigits];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  text.append(digits, end);
}

// Writes the decimals of `low`, `low` + 1, … to `scratch`, one after the other, and sets `out` to
// views of them. Nine times in ten a number shares all digits but the last with the one before it:
// these are copied.
void write_decimals(std::int64_t low, std::span<std::string_view> out, std::string& scratch) {
  // Room for the last copy, which is of full length.
  if (scratch.size() < (out.size() + 1) * kMostDigits) scratch.resize((out.size() + 1) * kMostDigits);
  char* position = scratch.data();
  char text[kMostDigits] = {};
  std::size_t length = 0;
  unsigned last_digit = 9;  // of the previous number, if the next one shares the digits before it
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool shares = last_digit != 9;
    if (shares) {
      ++last_digit;
    } else {
      // Unsigned arithmetic wraps as two's complement does.
      const auto number = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + i);
      length = static_cast<std::size_t>(std::to_chars(text, text + kMostDigits, number).ptr - text);
      // Below zero the digits count down: each number is written by itself.
      last_digit = number >= 0 ? static_cast<unsigned>(number % 10) : 9;
    }
    std::memcpy(position, text, kMostDigits);
    if (shares) position[length - 1] = static_cast<char>('0' + last_digit);
    out[i] = {position, length};
    position += length;
  }
}

}  // namespace

RangePayloads::RangePayloads(std::int64_t low, SharedText pattern)
    : low_(low), pattern_(std::move(pattern)) {}

std::size_t RangePayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) {
  // Unsigned arithmetic wraps as two's complement does: low_ may be negative.
  const auto number_at = [&](std::size_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low_) + first + i);
  };
  if (!pattern_) {
    write_decimals(number_at(0), out, scratch);
    return out.size();
  }
  // `scratch` may move while it grows: the views are made once its length is final.
  scratch.clear();
  std::vector<std::size_t> ends;
  ends.reserve(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i != 0 && scratch.size() + scratch.size() / i > kScratchBytes) break;
    std::size_t from = 0;
    for (std::size_t at; (at = pattern_->find("{}", from)) != std::string::npos; from = at + 2) {
      scratch.append(*pattern_, from, at - from);
      append_decimal(scratch, number_at(i));
    }
    scratch.append(*pattern_, from);
    ends.push_back(scratch.size());
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    out[i] = std::string_view(scratch).substr(begin, ends[i] - begin);
    begin = ends[i];
  }
  return ends.size();
}

bool RangePayloads::append_part(std::uint64_t index, std::size_t& from, std::size_t most,
                                std::string& payload) const {
  std::string decimal;
  append_decimal(decimal, static_cast<std::int64_t>(static_cast<std::uint64_t>(low_) + index));
  if (!pattern_) {
    payload += decimal;
    return true;
  }
  std::string_view part = std::string_view(*pattern_).substr(from, most);
  // The last byte may be the first half of a "{}".
  if (part.size() > 1 && from + part.size() < pattern_->size() && part.back() == '{') part.remove_suffix(1);
  from += part.size();
  for (std::size_t at; (at = part.find("{}")) != std::string_view::npos; part.remove_prefix(at + 2)) {
    payload.append(part.substr(0, at)).append(decimal);
  }
  payload += part;
  return from == pattern_->size();
}

std::uint64_t RangePayloads::memory_bytes() const {
  return sizeof(*this) + (pattern_ ? pattern_->capacity() : 0);
}

StringPayloads::StringPayloads(std::vector<std::string> payloads) : payloads_(std::move(payloads)) {}

std::size_t StringPayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = payloads_.at(first + i);
  return out.size();
}

std::uint64_t StringPayloads::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& payload : payloads_) bytes += sizeof(payload) + payload.size();
  return bytes;
}

}  // namespace locksley
