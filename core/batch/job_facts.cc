#include "core/batch/job_facts.h"

namespace locksley {
namespace {

// Which optional members follow the others.
constexpr std::uint64_t kHasExit = 1;
constexpr std::uint64_t kHasProgress = 2;
constexpr std::uint64_t kHasNote = 4;
constexpr std::uint64_t kHasLog = 8;
constexpr std::uint64_t kAllFlags = 15;

// Base-128 varints, as in Protocol Buffers.
void put(std::string& to, std::uint64_t value) {
  while (value >= 0x80) {
    to.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to.push_back(static_cast<char>(value));
}
void put(std::string& to, std::string_view text) {
  put(to, static_cast<std::uint64_t>(text.size()));
  to.append(text);
}

class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    is_damaged_ = true;
    rest_ = {};
    return 0;
  }
  std::string_view text() {
    const std::uint64_t size = number();
    if (size > rest_.size()) {
      is_damaged_ = true;
      return {};
    }
    const std::string_view value = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(value.size());
    return value;
  }
  bool is_at_end() const { return !is_damaged_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_damaged_ = false;
};

}  // namespace

void encode(const JobFacts& facts, std::string& bytes) {
  const bool has_log = facts.log_end != 0;
  put(bytes, (facts.exit_status ? kHasExit : 0) | (facts.progress ? kHasProgress : 0) |
                 (facts.note.empty() ? 0 : kHasNote) | (has_log ? kHasLog : 0));
  put(bytes, std::uint64_t{facts.attempt});
  put(bytes, static_cast<std::uint64_t>(facts.started_at));
  put(bytes, static_cast<std::uint64_t>(facts.duration_us));
  put(bytes, facts.worker);
  if (facts.exit_status) put(bytes, std::uint64_t{static_cast<std::uint32_t>(*facts.exit_status)});
  if (facts.progress) put(bytes, std::uint64_t{*facts.progress});
  if (!facts.note.empty()) put(bytes, facts.note);
  if (has_log) {
    put(bytes, facts.log_end);
    put(bytes, facts.log);
  }
}

std::optional<JobFacts> decode_facts(std::string_view bytes) {
  Bytes from(bytes);
  JobFacts facts;
  const std::uint64_t flags = from.number();
  if (flags > kAllFlags) return std::nullopt;
  facts.attempt = static_cast<std::uint32_t>(from.number());
  facts.started_at = static_cast<std::int64_t>(from.number());
  facts.duration_us = static_cast<std::int64_t>(from.number());
  facts.worker = from.text();
  if ((flags & kHasExit) != 0) facts.exit_status = static_cast<std::int32_t>(from.number());
  if ((flags & kHasProgress) != 0) facts.progress = static_cast<std::uint32_t>(from.number());
  if ((flags & kHasNote) != 0) facts.note = from.text();
  if ((flags & kHasLog) != 0) {
    facts.log_end = from.number();
    facts.log = from.text();
  }
  if (!from.is_at_end() || facts.log.size() > facts.log_end) return std::nullopt;
  return facts;
}

}  // namespace locksley
