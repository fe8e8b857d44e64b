#include "daemon/store/postgres/primary_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <string_view>
#include <utility>

#include "daemon/base/time.h"

namespace locksley::daemon {
namespace {

constexpr auto kPatience = std::chrono::seconds(3);  // as connect_timeout

std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  if (list.empty()) return parts;
  for (;;) {
    const std::size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

// The name of a file of the log begins with the timeline, as eight hexadecimal digits. A rented
// database may not say it: 0.
PgExpected<std::uint32_t> timeline_of(PgConnection& connection) {
  const auto named = connection.run("select pg_walfile_name(pg_current_wal_lsn())", now() + kPatience);
  if (!named) {
    if (named.error().is_lost()) return std::unexpected(named.error());
    return 0;
  }
  const std::string_view name = bytes_of(**named, 0, 0);
  std::uint32_t timeline = 0;
  std::from_chars(name.data(), name.data() + std::min<std::size_t>(name.size(), 8), timeline, 16);
  return timeline;
}

}  // namespace

std::vector<ServerAddress> servers_in(const std::string& url) {
  std::vector<std::string> hosts;
  std::vector<std::string> numbers;
  std::vector<std::string> ports;
  std::string default_port;
  const auto options = parse_url(url);
  for (const PQconninfoOption* each = options.get(); each != nullptr && each->keyword != nullptr; ++each) {
    const std::string_view keyword = each->keyword;
    const std::string_view value = each->val == nullptr ? "" : each->val;
    if (keyword == "host") hosts = parts_of(value);
    if (keyword == "hostaddr") numbers = parts_of(value);
    if (keyword != "port") continue;
    ports = parts_of(value);
    default_port = each->compiled == nullptr ? "" : each->compiled;
  }
  // For libpq, one that is left out of a list is this one, whatever PGPORT says.
  for (std::string& port : ports) {
    if (port.empty()) port = default_port;
  }
  const std::size_t count = std::max(hosts.size(), numbers.size());
  const auto fits = [&](const std::vector<std::string>& parts) {
    return parts.empty() || parts.size() == count;
  };
  // A server without a name or a number is one that libpq finds.
  const bool have_all =
      std::ranges::find(hosts, "") == hosts.end() && std::ranges::find(numbers, "") == numbers.end();
  if (!have_all || !fits(hosts) || !fits(numbers) || (!fits(ports) && ports.size() != 1)) return {};
  std::vector<ServerAddress> servers(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!hosts.empty()) servers[i].host = hosts[i];
    if (!numbers.empty()) servers[i].number = numbers[i];
    if (!ports.empty()) servers[i].port = ports.size() == 1 ? ports.front() : ports[i];
  }
  return servers;
}

PrimaryFinder::PrimaryFinder(std::string url) : url_(std::move(url)), servers_(servers_in(url_)) {}

PgExpected<std::unique_ptr<PgConnection>> PrimaryFinder::connect(const std::string& name, Look look) {
  if (servers_.size() < 2) {
    auto opened = connect_to(name, nullptr);
    if (!opened || !is_outdated(**opened)) return opened;
    return std::unexpected(old_primary(**opened));
  }
  if (look == Look::kFirst) {
    // Not in the order of the URL, once it is known: a server before it that is silent takes 3 s
    // each time.
    const ServerAddress* const last = last_;
    auto opened = connect_to(name, last);
    if (opened ? !is_outdated(**opened) : last == nullptr) return opened;
  }
  return ask_all(name);
}

PgError PrimaryFinder::old_primary(const PgConnection& connection) const {
  return {
      {EngineError::Kind::kFailed,
       fmt::format(
           "the only server that can be written is an old primary: its log is at timeline {}, and that of a "
           "server which was promoted later at {}",
           connection.timeline(), newest_.load())},
      ""};
}

PgExpected<std::unique_ptr<PgConnection>> PrimaryFinder::connect_to(const std::string& name,
                                                                    const ServerAddress* server) {
  auto opened = PgConnection::open(url_, name, server);
  if (!opened) return opened;
  const auto timeline = timeline_of(**opened);
  if (!timeline) return std::unexpected(timeline.error());
  (*opened)->set_timeline(*timeline);
  std::uint32_t newest = newest_.load();
  while (newest < *timeline && !newest_.compare_exchange_weak(newest, *timeline)) {
  }
  return opened;
}

// A thread for each, because libpq cannot say that one of several addresses of a server has been
// tried for long enough.
PgExpected<std::unique_ptr<PgConnection>> PrimaryFinder::ask_all(const std::string& name) {
  std::vector<std::future<PgExpected<std::unique_ptr<PgConnection>>>> asked;
  // One after the other if there can be no more threads.
  constexpr auto kPolicy = std::launch::async | std::launch::deferred;
  for (const ServerAddress& server : servers_) {
    asked.push_back(std::async(kPolicy, [this, &name, &server] { return connect_to(name, &server); }));
  }
  std::unique_ptr<PgConnection> best;
  const ServerAddress* found = nullptr;
  std::string errors;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto opened = asked[i].get();
    if (!opened) {
      errors += (errors.empty() ? "" : "; ") + opened.error().error.what;
    } else if (best == nullptr || best->timeline() < (*opened)->timeline()) {
      best = std::move(*opened);
      found = &servers_[i];
    }
  }
  if (best == nullptr) return std::unexpected(PgError::failed(errors));
  if (is_outdated(*best)) return std::unexpected(old_primary(*best));
  last_ = found;
  return best;
}

}  // namespace locksley::daemon
