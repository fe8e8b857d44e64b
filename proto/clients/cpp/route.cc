#include "proto/clients/cpp/route.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace locksley::client {
namespace {

bool is_of_this_machine(std::string_view host) {
  const bool is_ipv4 = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (is_ipv4 && host.starts_with("127."));
}

}  // namespace

Route::Route(std::vector<Address> addresses, Reach reach)
    : addresses_(std::move(addresses)),
      given_(addresses_.size()),
      reach_(reach),
      current_(addresses_.front()) {}

std::optional<Address> Route::named(std::string_view word) const {
  if (word.find("://") != std::string_view::npos || word.find(':') == std::string_view::npos ||
      word.find('@') != std::string_view::npos)
    return {};
  const auto parsed = parse_address(word);
  if (!parsed || (reach_ == Reach::kThisMachine && !is_of_this_machine(parsed->host))) return {};
  Address address = addresses_.front();
  address.host = parsed->host;
  address.port = parsed->port;
  return address;
}

void Route::name_others(const std::vector<std::string>& addresses) {
  addresses_.resize(given_);
  for (const std::string& word : addresses) {
    if (addresses_.size() - given_ == kMostNamed) break;
    auto address = named(word);
    if (address && std::ranges::find(addresses_, *address) == addresses_.end())
      addresses_.push_back(*std::move(address));
  }
  const auto listed = std::ranges::find(addresses_, current_);
  index_ = listed == addresses_.end() ? 0 : static_cast<std::size_t>(listed - addresses_.begin());
}

Route::Next Route::pause() {
  failures_ = 0;
  has_served_ = false;
  has_followed_ = false;
  return Next::kAfterPause;
}

void Route::advance() {
  is_loading_ = false;
  // After an address that a standby named, the search continues in the list where it was.
  if (current_ == addresses_[index_]) index_ = (index_ + 1) % addresses_.size();
  current_ = addresses_[index_];
}

Route::Next Route::unreachable() {
  if (std::exchange(has_served_, false) && is_list()) return Next::kAtOnce;
  advance();
  return ++failures_ < addresses_.size() ? Next::kAtOnce : pause();
}

Route::Next Route::standing_by(std::string_view reply) {
  has_served_ = false;
  auto active = named(reply.substr(reply.rfind(' ') + 1));
  if (!active || has_followed_ || *active == current_) return unreachable();
  current_ = *std::move(active);
  is_loading_ = false;
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

Route::Next Route::loading() {
  if (is_loading_) {
    advance();
  } else {
    is_loading_ = true;
  }
  return pause();
}

void Route::serving() {
  is_loading_ = false;
  pause();
  has_served_ = true;
}

bool is_elsewhere(std::string_view error_code) { return error_code == "READONLY" || error_code == "LOADING"; }

}  // namespace locksley::client
