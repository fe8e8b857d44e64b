// Payloads that are computed, or read from the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/server/payloads/batch_payloads.h"
#include "daemon/store/read/stored_range.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

// The payloads of a SUBMIT with RANGE: computed from the range, in constant memory. Nothing blocks
// or fails.
class RangedPayloads final : public BatchPayloads {
 public:
  explicit RangedPayloads(RangeJobs range)
      : high_(range.high),
        digest_(range.pattern.digest),
        payloads_(range.low, std::move(range.pattern.text)) {}

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override {
    return payloads_.fetch(first, out, scratch);
  }
  std::uint64_t memory_bytes() const override { return payloads_.memory_bytes(); }
  const RangePayloads* range() const override { return &payloads_; }

  // The pattern stays: it tells a repetition, and failed jobs need it.
  Released release(FailedJobs, Repetition) override {
    return {.freed = nullptr, .kept_bytes = payloads_.pattern() ? payloads_.memory_bytes() : 0};
  }
  std::optional<HeldPayload> in_memory(std::uint64_t index) override {
    constexpr std::size_t kLong = 64 * 1024;  // some 100 us, if it is full of places
    if (payloads_.pattern() && payloads_.pattern()->size() > kLong) return std::nullopt;
    std::string scratch;
    std::string_view payload;
    payloads_.fetch(index, {&payload, 1}, scratch);
    return HeldPayload::of(std::string(payload));
  }
  OpenRange open_range() const override {
    return [range = std::make_shared<const RangePayloads>(payloads_.low(), payloads_.pattern())] {
      return range;
    };
  }
  bool is_same(const proto::ArgumentList&) const override { return false; }
  bool is_same_range(const RangeJobs& other) const override {
    if (payloads_.low() != other.low || high_ != other.high) return false;
    const SharedText& own = payloads_.pattern();
    const SharedText& text = other.pattern.text;
    // To compare digests is cheaper.
    if (digest_ && other.pattern.digest && own && text)
      return own->size() == text->size() && digest_ == other.pattern.digest;
    return own == text;
  }

 private:
  const std::int64_t high_;
  const std::optional<Digest> digest_;  // of the pattern
  RangePayloads payloads_;
};

// Opens the range of one batch in the store, for executors or for the reader's thread.
using OpenStoredRange = std::function<std::unique_ptr<StoredRange>(Store::Fetched fetched)>;

// The payloads of a range whose pattern lies in the store alone: the batch is over, and was read
// back. A fetch, which happens if failed jobs run again, reads the pattern; it may block, and
// fails, as the store's reads do.
class StoredRangePayloads final : public BatchPayloads {
 public:
  // Its pattern has no text. `digest`: of the text, if the client chose the id.
  StoredRangePayloads(const RangeJobs& range, OpenStoredRange open_stored)
      : low_(range.low),
        high_(range.high),
        digest_(range.pattern.digest),
        open_stored_(std::move(open_stored)),
        stored_(open_stored_(Store::Fetched::kByExecutors)) {}

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override {
    return stored_->fetch(first, out, scratch);
  }
  std::uint64_t memory_bytes() const override { return stored_->memory_bytes(); }
  const RangePayloads* range() const override {
    try {
      return stored_->read().get();  // which keeps it
    } catch (const std::runtime_error&) {
      return nullptr;  // fetch() says why
    }
  }

  Released release(FailedJobs, Repetition) override {
    const std::uint64_t bytes = stored_->memory_bytes();
    return {.freed = std::exchange(stored_, open_stored_(Store::Fetched::kByExecutors)),
            .freed_bytes = bytes};
  }
  std::optional<HeldPayload> in_memory(std::uint64_t /*index*/) override { return std::nullopt; }
  OpenRange open_range() const override {
    return [open = open_stored_] { return open(Store::Fetched::kByReader)->read(); };
  }
  bool is_same(const proto::ArgumentList&) const override { return false; }
  bool is_same_range(const RangeJobs& other) const override {
    return low_ == other.low && high_ == other.high && digest_ && digest_ == other.pattern.digest;
  }

 private:
  const std::int64_t low_;
  const std::int64_t high_;
  const std::optional<Digest> digest_;
  const OpenStoredRange open_stored_;
  std::shared_ptr<StoredRange> stored_;
};

// Payloads that are read from the store, with a bounded cache, which release() drops: the batch was
// restored, or memory had no room for them. A fetch may block, and fails, as the store's reads do.
class FetchedPayloads final : public BatchPayloads {
 public:
  // `digest`: of all payloads, if the client chose the id.
  FetchedPayloads(std::unique_ptr<PayloadSource> stored, std::uint64_t jobs, std::optional<Digest> digest)
      : stored_(std::move(stored)), jobs_(jobs), digest_(digest) {}

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override {
    return stored_->fetch(first, out, scratch);
  }
  std::uint64_t memory_bytes() const override { return stored_->memory_bytes(); }

  Released release(FailedJobs, Repetition) override {
    stored_->drop_cached();
    return {};
  }
  std::optional<HeldPayload> in_memory(std::uint64_t /*index*/) override { return std::nullopt; }
  bool is_same(const proto::ArgumentList& payloads) const override {
    return payloads.size() == jobs_ && digest_.has_value() && *digest_ == digest_of(payloads);
  }
  std::optional<Digest> digest() const override { return digest_; }

 private:
  const std::unique_ptr<PayloadSource> stored_;
  const std::uint64_t jobs_;
  const std::optional<Digest> digest_;
};

}  // namespace locksley::daemon
