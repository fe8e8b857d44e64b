#include "proto/clients/cpp/route.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace locksley::client {
namespace {

// The last word of the reply, if it is HOST:PORT: a daemon names an address, and chooses neither user nor TLS.
std::optional<Address> named_in(std::string_view reply) {
  const std::string_view word = reply.substr(reply.rfind(' ') + 1);
  if (word.find("://") != std::string_view::npos || word.find(':') == std::string_view::npos) return {};
  const auto parsed = parse_address(word);
  return parsed ? std::optional(*parsed) : std::nullopt;
}

}  // namespace

Route::Route(std::vector<Address> addresses)
    : addresses_(std::move(addresses)), current_(addresses_.front()) {}

Route::Next Route::pause() {
  failures_ = 0;
  has_served_ = false;
  has_followed_ = false;
  return Next::kAfterPause;
}

Route::Next Route::unreachable() {
  if (std::exchange(has_served_, false) && is_list()) return Next::kAtOnce;
  // After an address that was followed, the list goes on where it was.
  if (current_ == addresses_[index_]) index_ = (index_ + 1) % addresses_.size();
  current_ = addresses_[index_];
  return ++failures_ < addresses_.size() ? Next::kAtOnce : pause();
}

Route::Next Route::standing_by(std::string_view reply) {
  has_served_ = false;
  const auto named = named_in(reply);
  if (!named || has_followed_) return unreachable();
  Address active = current_;
  active.host = named->host;
  active.port = named->port;
  if (active == current_) return unreachable();
  current_ = std::move(active);
  has_followed_ = true;
  const auto listed = std::ranges::find(addresses_, current_);
  if (listed != addresses_.end()) index_ = static_cast<std::size_t>(listed - addresses_.begin());
  return Next::kAtOnce;
}

std::optional<Route::Next> Route::after(const ClientError& error) {
  if (error.code == "READONLY") return standing_by(error.message);
  if (error.code == "LOADING") return loading();
  if (error.kind == ClientError::Kind::kUnavailable) return unreachable();
  return {};
}

Route::Next Route::loading() { return pause(); }

void Route::serving() {
  pause();
  has_served_ = true;
}

bool is_elsewhere(std::string_view error_code) { return error_code == "READONLY" || error_code == "LOADING"; }

}  // namespace locksley::client
