// A source of payloads of which one cannot be read.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/batch/payload.h"

namespace locksley::testing {

// All payloads are the same text, but for the one of job `bad`: a fetch that includes it throws.
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

}  // namespace locksley::testing
