#include "daemon/http/login_waits.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace locksley::daemon {

void LoginWaits::add(const asio::ip::address& network, const std::string& user,
                     const std::shared_ptr<Wait>& wait) {
  std::erase_if(entries_, [](const Entry& entry) {
    const auto waiting = entry.wait.lock();
    return waiting == nullptr || waiting->has_ended();
  });
  std::size_t of_network = 0;
  std::map<std::string_view, std::size_t> of_user;
  for (const Entry& entry : entries_) {
    if (entry.network != network) continue;
    ++of_network;
    ++of_user[entry.user];
  }
  if (of_network >= kMostOfNetwork) {
    const auto most = std::ranges::max_element(of_user, {}, [](const auto& each) { return each.second; });
    if (most->second <= of_user[user] + 1) return wait->end(Verdict::kBusy);
    const auto last = std::ranges::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) {
      return entry.network == network && entry.user == most->first;
    });
    const auto victim = last->wait.lock();
    entries_.erase(std::next(last).base());
    if (victim != nullptr) victim->end(Verdict::kBusy);
  }
  entries_.push_back({network, user, wait});
}

}  // namespace locksley::daemon
