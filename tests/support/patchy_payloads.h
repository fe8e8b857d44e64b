// Sources of payloads that cannot be read: one of them, or all for a while.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/batch/payload.h"

namespace locksley::testing {

// All payloads are the same text, except the one of job `bad`: a fetch that includes it throws.
class PatchyPayloads final : public PayloadSource {
 public:
  explicit PatchyPayloads(std::uint64_t bad, std::string text = "payload")
      : bad_(bad), text_(std::move(text)) {}
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) override {
    if (first <= bad_ && bad_ < first + out.size()) throw std::runtime_error("lost");
    for (std::string_view& payload : out) payload = text_;
    return out.size();
  }
  std::uint64_t memory_bytes() const override { return 0; }

 private:
  const std::uint64_t bad_;
  const std::string text_;
};

// All payloads are empty, and those from `first_away` on cannot be read now.
class AwayPayloads final : public PayloadSource {
 public:
  explicit AwayPayloads(std::atomic<std::uint64_t>& first_away) : first_away_(first_away) {}
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string&) override {
    const std::uint64_t away = first_away_;
    const std::size_t there = away <= first ? 0 : std::min<std::size_t>(out.size(), away - first);
    for (std::string_view& payload : out.first(there)) payload = {};
    return there;
  }
  std::uint64_t memory_bytes() const override { return 0; }

 private:
  std::atomic<std::uint64_t>& first_away_;
};

}  // namespace locksley::testing
