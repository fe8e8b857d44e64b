#include "daemon/upstream/upstream.h"

#include <algorithm>
#include <future>
#include <random>
#include <utility>

#include "config/lanes.h"
#include "core/lane/lane_groups.h"
#include "daemon/base/loop/io_loop.h"
#include "daemon/base/loop/io_mailbox.h"

namespace locksley::daemon {
namespace {

constexpr std::uint16_t kDefaultPort = 7771;  // `workers.port`
// Each lane may use 1/kSparePart of max_leased_bytes even if other lanes have filled all of it,
// perhaps with results that no upstream takes. A guess: room for results of many jobs, and little
// memory beside the limit.
constexpr std::uint64_t kSparePart = 8;

// Whether the offer gets a connection.
bool is_served(const OfferedLane& offered) { return offered.slots != 0 && !offered.handlers.empty(); }

}  // namespace

std::expected<std::vector<client::Address>, std::string> upstream_addresses(const config::Upstream& settings,
                                                                            std::string_view password) {
  auto addresses = client::parse_addresses(settings.url, kDefaultPort);
  if (!addresses) return std::unexpected("upstream.url: " + addresses.error().message);
  for (client::Address& address : *addresses) {
    if (!password.empty()) address.password = password;
    address.ca_file = settings.ca_file;
    address.certificate = settings.cert_file;
    address.key = settings.key_file;
  }
  return *std::move(addresses);
}

Upstream::Upstream(Parts parts)
    : parts_(std::move(parts)), work_(io_.get_executor()), seed_(std::random_device{}()) {
  const std::uint64_t most = parts_.settings.max_leased_bytes.count;
  results_.set_limit(most);
  results_.on_change([this] {
    const MutexLock lock(mutex_);
    for (Lane* const lane : lanes_) lane->groups().reopen_tenants();
  });
}

Upstream::~Upstream() {
  end(std::chrono::milliseconds(0));
  // Connections refund their charges when they are destroyed, and no lane needs to know.
  results_.on_change(nullptr);
}

template <class Function>
void Upstream::post(Function function) {
  IoMailbox::of(io_).post([function = std::move(function)]() mutable {
    kUpstreamThread.assert_held();
    function();
  });
}

void Upstream::start() {
  thread_ = std::thread([this] { run(); });
}

void Upstream::run() {
  const ThreadRoleScope role(kUpstreamThread);
  run_io_loop(io_,
              {.may_poll = [this] { return parts_.pool != nullptr && parts_.pool->has_free_worker(); },
               .awaits_worker =
                   [this] {
                     kUpstreamThread.assert_held();
                     return is_busy();
                   },
               .do_deferred =
                   [this] {
                     kUpstreamThread.assert_held();
                     claim_put_off();
                   },
               .may_stay_deferred =
                   [this] {
                     kUpstreamThread.assert_held();
                     return may_stay_put_off();
                   }},
              stretches_);
}

bool Upstream::is_busy() const {
  return std::ranges::any_of(served_, [](const Served& served) {
    kUpstreamThread.assume_held();
    return served.connection->is_busy();
  });
}

void Upstream::claim_put_off() {
  for (const Served& served : served_) served.connection->claim_put_off();
}

bool Upstream::may_stay_put_off() const {
  const auto puts_off = [](const Served& served) {
    kUpstreamThread.assume_held();
    return served.connection->puts_off_claims();
  };
  const auto may_stay = [](const Served& served) {
    kUpstreamThread.assume_held();
    return served.connection->may_stay_put_off();
  };
  return std::ranges::any_of(served_, puts_off) && std::ranges::all_of(served_, may_stay);
}

std::string Upstream::name_of(const Lane& lane) const {
  const std::string& name = parts_.settings.name.empty() ? parts_.host_name : parts_.settings.name;
  return lane.name() == config::kPoolLane ? name : name + "/" + lane.name();
}

void Upstream::offer(std::vector<OfferedLane> lanes) {
  {
    const MutexLock lock(mutex_);
    for (const OfferedLane& offered : lanes) {
      if (std::ranges::find(lanes_, offered.lane) == lanes_.end()) lanes_.push_back(offered.lane);
    }
    set_known(lanes);
  }
  post([this, lanes = std::move(lanes)]() mutable {
    kUpstreamThread.assert_held();
    take_offer(std::move(lanes));
  });
}

void Upstream::set_known(const std::vector<OfferedLane>& lanes) {
  for (auto& [name, known] : known_) known.is_offered = false;
  for (const OfferedLane& offered : lanes) {
    if (!is_served(offered)) continue;
    KnownLane& known = known_.try_emplace(offered.lane->name(), results_).first->second;
    known.is_offered = true;
    known.results.set_limit(ResultAccount::kNoLimit, results_.limit() / kSparePart);
  }
}

std::vector<UpstreamLaneView> Upstream::lanes() const {
  const MutexLock lock(mutex_);
  std::vector<UpstreamLaneView> views;
  for (const auto& [name, known] : known_) {
    if (known.is_offered) views.push_back(UpstreamLaneView::of(name, known.meter));
  }
  return views;
}

void Upstream::take_offer(std::vector<OfferedLane> lanes) {
  if (is_draining_) return;
  std::vector<Served> kept;
  for (Served& served : served_) {
    const auto same = std::ranges::find(lanes, served.offer);
    if (same != lanes.end()) {
      lanes.erase(same);
      kept.push_back(std::move(served));
    } else {
      served.connection->drain();
      retired_.push_back(std::move(served));
    }
  }
  served_ = std::move(kept);
  for (OfferedLane& offered : lanes) {
    if (is_served(offered)) add(std::move(offered));
  }
}

void Upstream::add(OfferedLane offer) {
  UpstreamLinkOptions options;
  options.addresses = parts_.addresses;
  // Payloads and the password would not be encrypted.
  const bool is_open_to_all =
      parts_.addresses.front().tls || parts_.settings.insecure == config::Insecure::kYes;
  options.reach = is_open_to_all ? client::Route::Reach::kAnywhere : client::Route::Reach::kThisMachine;
  options.name = name_of(*offer.lane);
  options.slots = std::min(offer.slots, UpstreamLinkOptions::kMostSlots);
  for (const LeaseHandler& served : offer.handlers) options.handlers.push_back(served.handler->name());
  options.grace = offer.grace;
  options.max_kept_bytes = parts_.settings.max_leased_bytes.count;
  options.seed = seed_++;
  KnownLane& known = [&]() -> KnownLane& {
    const MutexLock lock(mutex_);
    return known_.at(offer.lane->name());
  }();
  auto connection = std::make_unique<UpstreamConnection>(
      UpstreamConnection::Parts{.io = io_,
                                .link = std::move(options),
                                .lane = *offer.lane,
                                .handlers = offer.handlers,
                                .are_handlers_named = !parts_.settings.handlers.empty(),
                                .use = parts_.use,
                                .results = known.results,
                                .meter = known.meter,
                                .changed =
                                    [this] {
                                      kUpstreamThread.assert_held();
                                      check_done();
                                    },
                                .refused = parts_.refused,
                                .log = parts_.log});
  served_.push_back({std::move(offer), std::move(connection)});
  served_.back().connection->start();
}

void Upstream::begin_drain() {
  if (std::exchange(is_draining_, true)) return;
  for (const Served& served : served_) served.connection->drain();
}

void Upstream::drain(std::function<void()> done) {
  post([this, done = std::move(done)]() mutable {
    kUpstreamThread.assert_held();
    done_ = std::move(done);
    begin_drain();
    check_done();
  });
}

void Upstream::stop() {
  post([this] {
    kUpstreamThread.assert_held();
    is_draining_ = true;
    for (const std::vector<Served>* const all : {&served_, &retired_}) {
      for (const Served& served : *all) served.connection->stop();
    }
    check_done();
  });
}

void Upstream::check_done() {
  if (!is_draining_ || !done_) return;
  for (const std::vector<Served>* const all : {&served_, &retired_}) {
    for (const Served& served : *all) {
      if (!served.connection->is_done()) return;
    }
  }
  std::exchange(done_, nullptr)();
}

bool Upstream::is_drained_within(std::chrono::milliseconds patience) {
  const auto is_done = std::make_shared<std::promise<void>>();
  auto done = is_done->get_future();
  drain([is_done] { is_done->set_value(); });
  return done.wait_for(patience) == std::future_status::ready;
}

void Upstream::end(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) return;
  if (!is_drained_within(patience)) {
    post([this] {
      kUpstreamThread.assert_held();
      for (const std::vector<Served>* const all : {&served_, &retired_}) {
        for (const Served& served : *all) served.connection->leave();
      }
    });
    (void)is_drained_within(patience);
  }
  post([this] {
    kUpstreamThread.assert_held();
    for (const std::vector<Served>* const all : {&served_, &retired_}) {
      for (const Served& served : *all) served.connection->abandon();
    }
    io_.stop();
  });
  thread_.join();
}

}  // namespace locksley::daemon
