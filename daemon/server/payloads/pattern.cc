#include "daemon/server/payloads/pattern.h"

#include <algorithm>
#include <utility>

#include "daemon/base/hash128.h"

namespace locksley::daemon {

namespace {

// How many "{}" end in the text, after a byte that is `before`.
std::uint64_t places_in(std::string_view text, char before) {
  std::uint64_t places = 0;
  for (const char c : text) places += std::exchange(before, c) == '{' && c == '}' ? 1U : 0U;
  return places;
}

}  // namespace

struct PatternInParts::State {
  void add(std::string_view part) {
    places += places_in(part, text.empty() ? ' ' : text.back());
    hash.add(part);
    text += part;
  }

  Hash128 hash;
  std::string text;
  std::uint64_t places = 0;
};

PatternInParts::PatternInParts(std::string_view text) : state_(std::make_unique<State>()), left_(text) {
  state_->text.reserve(text.size());
}

PatternInParts::~PatternInParts() = default;

std::optional<Pattern> PatternInParts::go_on(Instant until) {
  constexpr std::size_t kAtOnce = std::size_t{64} * 1024;  // between two looks at the clock: some 50 us
  while (!left_.empty()) {
    const std::size_t some = std::min(kAtOnce, left_.size());
    state_->add(left_.substr(0, some));
    left_.remove_prefix(some);
    if (!left_.empty() && now() >= until) return std::nullopt;
  }
  return Pattern{.text = std::move(state_->text), .places = state_->places, .digest = state_->hash.value()};
}

Pattern pattern_of(std::string_view text) {
  return {.text = std::string(text), .places = places_in(text, ' '), .digest = Hash128::of(text)};
}

}  // namespace locksley::daemon
