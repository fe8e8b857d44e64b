// Length: one class; what the link asks of it is half of it.
#include "daemon/worker_port/link_service.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <random>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/io_loop.h"
#include "daemon/base/net/endpoint_text.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/worker_port/worker_session.h"

namespace locksley::daemon {

namespace {

// How often the link asks whether the store has room again. A guess.
constexpr auto kRoomPeriod = std::chrono::milliseconds(10);
// InputBudget::kPatience counts these.
constexpr auto kInputPeriod = std::chrono::seconds(1);
// Workers wait 30 s for a sign of life.
constexpr std::uint64_t kLooksToShowLife = 5;
// How old the view may be. A guess: people and scrapers do not notice it.
constexpr auto kViewPeriod = std::chrono::milliseconds(50);
// A timer that is this late shows that the thread did not run, and has read nothing. The workers of
// the shortest leases send a BEAT every 333 ms.
constexpr auto kDeaf = std::chrono::milliseconds(300);
// Bytes that the system takes for a peer beyond those that are on their way. More would leave the
// link without a sign that a slow peer receives a long reply. A guess: some ms of a fast link.
constexpr int kMostNotSent = 256 * 1024;
constexpr int kViewCost = 100;  // making the view takes at most one part in this many of the thread's time

// A number for this process of the daemon, so that leases of an earlier process are not taken for
// its own.
std::uint64_t random_life() {
  std::random_device device;
  const std::uint64_t life = (std::uint64_t{device()} << 32) | device();
  return life == 0 ? 1 : life;
}

// Without a store the numbers of batches begin anew in each process.
std::string store_name(const Store* store) {
  return store != nullptr ? store->id() : fmt::format("memory-{:016x}", random_life());
}

}  // namespace

LinkService::LinkService(Parts parts, const WorkerLinkOptions& options, MachinesBoard& board,
                         std::shared_ptr<const WorkerDirectory> directory)
    : parts_(std::move(parts)),
      store_(store_name(parts_.store)),
      board_(board),
      mailbox_(IoMailbox::of(io_)),
      work_(io_.get_executor()),
      listener_(io_, parts_.log),
      handshakes_(io_.get_executor()),
      turns_(io_.get_executor(), stretches_.polls),
      slices_(io_.get_executor()),
      directory_(std::move(directory)),
      link_(std::make_unique<WorkerLink>(*this, options, random_life(), boot_time())),
      checking_certificates_(slices_),
      input_(options.max_leased_bytes),
      timer_(io_),
      room_timer_(io_),
      input_timer_(io_),
      stop_timer_(io_),
      view_timer_(io_) {}

LinkService::~LinkService() = default;

std::expected<asio::ip::tcp::endpoint, std::string> LinkService::listen(BoundPort port) {
  return listener_.listen(std::move(port), [this](Socket socket) {
    kLinkThread.assert_held();
    accept(std::move(socket));
  });
}

void LinkService::run(std::function<bool()> may_poll) {
  // While a lease is out its result may come soon.
  const auto awaits_worker = [this] {
    kLinkThread.assert_held();
    return link_ != nullptr &&
           std::ranges::any_of(link_->lanes(), [](const auto& lane) { return lane.second.leases != 0; });
  };
  run_io_loop(io_, {.may_poll = std::move(may_poll), .awaits_worker = awaits_worker}, stretches_);
}

void LinkService::accept(Socket socket) {
  asio::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return;  // gone already
  socket.non_blocking(true, error);
  const auto refuse = [&, is_plain = directory_->tls == nullptr](std::string_view reply) {
    // A TLS client would not understand plain text.
    if (is_plain) socket.write_some(asio::buffer(reply.data(), reply.size()), error);
  };
  if (!directory_->has_users && !is_loopback(remote.address())) {
    return refuse("-DENIED no users are configured, so only connections from this machine are served\r\n");
  }
  if (!make_room()) return refuse("-ERR max number of clients reached\r\n");
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  socket.set_option(asio::socket_base::keep_alive(true), error);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostNotSent, sizeof kMostNotSent);
  auto session =
      std::make_shared<WorkerSession>(*this, Transport(std::move(socket), directory_->tls), to_text(remote));
  sessions_.emplace(session->id(), session);
  asio::co_spawn(io_.get_executor(), WorkerSession::serve(std::move(session)), asio::detached);
}

bool LinkService::make_room() {
  if (sessions_.size() < directory_->max_clients) return true;
  if (sessions_.size() >= directory_->max_clients + Strangers::kMostAbove) return false;
  const auto id = strangers_.first_to_go(now());
  if (!id) return false;
  sessions_.at(*id)->give_way();
  return true;
}

void LinkService::set_directory(std::shared_ptr<const WorkerDirectory> directory) {
  const auto before = std::exchange(directory_, std::move(directory));
  if (link_ == nullptr) return;
  link_->handlers_changed();
  follow_handlers();
  for (const auto& [id, session] : sessions_) session->directory_changed();
  if (before->tls != nullptr && !before->tls->has_authorities_of(directory_->tls.get())) check_certificates();
  publish();
  // Claims may have ended or been served, and the timer for the end of the hold after a restart may
  // have to be set.
  after_link();
}

void LinkService::follow_handlers() {
  constexpr std::size_t kBetweenLooks = 64;  // names of handlers: some 30 us
  if (is_following_ || link_->follow_handlers(kBetweenLooks, boot_time())) return;
  is_following_ = true;
  slices_.add([this](Instant until) {
    kLinkThread.assert_held();
    while (link_ != nullptr && !link_->follow_handlers(kBetweenLooks, boot_time())) {
      if (now() < until) continue;
      after_link();
      return false;
    }
    is_following_ = false;
    after_link();
    return true;
  });
}

// In slices: a check takes some 0.1 ms.
void LinkService::check_certificates() {
  checking_certificates_.restart([this, next = WorkerLink::Id{0}](Instant until) mutable {
    kLinkThread.assert_held();
    for (auto at = sessions_.lower_bound(next); at != sessions_.end(); ++at) {
      at->second->authorities_changed();
      next = at->first + 1;
      if (now() >= until) return false;
    }
    return true;
  });
}

void LinkService::store_advanced() {
  if (link_ == nullptr) return;
  note_written();
  after_link();
}

void LinkService::note_written() {
  const Ticket ticket = parts_.store->written();
  const Nanoseconds now = boot_time();
  for (; !settles_.empty() && settles_.front().first <= ticket; settles_.pop_front())
    settle_time_.observe(now - settles_.front().second);
  link_->written(ticket);
}

void LinkService::drain() {
  if (link_ == nullptr) return;
  link_->drain(boot_time());
  after_link();
}

void LinkService::stop() {
  if (link_ == nullptr) return;
  constexpr Nanoseconds kMost = std::chrono::milliseconds(500);  // a guess: a disk that takes longer fails
  listener_.close();
  stop_by_ = boot_time() + kMost;
  stop_once_replied();
}

void LinkService::stop_once_replied() {
  after_link();
  if (!link_->awaits_store() || boot_time() >= stop_by_) return end();
  constexpr Nanoseconds kPeriod =
      std::chrono::milliseconds(1);  // nothing tells this thread of the store any more
  stop_timer_.expires_after(kPeriod);
  stop_timer_.async_wait([this](const asio::error_code&) {
    kLinkThread.assert_held();
    stop_once_replied();
  });
}

void LinkService::end() {
  timer_.cancel();
  room_timer_.cancel();
  input_timer_.cancel();
  view_timer_.cancel();
  work_.reset();
  for (const auto& [id, session] : sessions_) session->drop("the daemon ends");
  link_.reset();
}

void LinkService::lane_has_work() {
  // [link-posted] acq_rel: what the caller did before is visible to the post, or to one that is on
  // its way already.
  if (work_is_posted_.exchange(true, std::memory_order_acq_rel)) return;
  mailbox_.post([this] {
    kLinkThread.assert_held();
    work_is_posted_.store(false, std::memory_order_seq_cst);
    if (link_ == nullptr) return;
    link_->wake(boot_time());
    after_link();
  });
}

void LinkService::lane_has_stops() {
  // [link-posted] acq_rel: as above.
  if (stops_are_posted_.exchange(true, std::memory_order_acq_rel)) return;
  mailbox_.post([this] {
    kLinkThread.assert_held();
    stops_are_posted_.store(false, std::memory_order_seq_cst);
    if (link_ == nullptr) return;
    link_->check_batches(boot_time());
    after_link();
  });
}

void LinkService::after_link() {
  if (link_ == nullptr) return;
  if (link_->awaits_store()) {
    const Ticket last = link_->last_ticket();
    if (settles_.empty() || settles_.back().first < last) settles_.emplace_back(last, boot_time());
    // [link-awaits-store] seq_cst: as in awaits_store().
    awaits_store_.store(true);
    if (parts_.store->is_written(last)) note_written();
  }
  if (!link_->awaits_store()) awaits_store_.store(false);
  for (const WorkerLink::Id id : link_->take_ready()) {
    if (const auto session = sessions_.find(id); session != sessions_.end()) session->second->send();
  }
  arm_timer();
  if (link_->lacks_room() || !has_room()) watch_room();
  publish_soon();
}

void LinkService::arm_timer() {
  const auto next = link_->next_timer();
  // A timer that goes off too early does no harm, so it is moved only to an earlier instant.
  if (!next || (timer_at_ && *timer_at_ <= *next)) return;
  timer_at_ = next;
  timer_.expires_after(std::max(Nanoseconds{0}, *next - boot_time()));
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kLinkThread.assert_held();
    const auto due = std::exchange(timer_at_, std::nullopt);
    if (link_ == nullptr) return;
    const Nanoseconds now = boot_time();
    if (due && now - *due >= kDeaf) link_->listens_again(now);
    link_->advance(now);
    after_link();
  });
}

void LinkService::watch_room() {
  if (std::exchange(room_timer_is_armed_, true)) return;
  room_timer_.expires_after(kRoomPeriod);
  room_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kLinkThread.assert_held();
    room_timer_is_armed_ = false;
    if (link_ == nullptr) return;
    if (has_room()) {
      for (const auto& [id, session] : sessions_) session->wake();
    } else {
      watch_room();  // also if there is room a moment later: connections that pause were not woken
    }
    link_->wake(boot_time());
    after_link();
  });
}

void LinkService::watch_input() {
  if (std::exchange(input_timer_is_armed_, true)) return;
  input_timer_.expires_after(kInputPeriod);
  input_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kLinkThread.assert_held();
    input_timer_is_armed_ = false;
    if (link_ == nullptr || !input_.is_awaited()) return;
    watch_input();
    if (!has_room()) return;  // no connection is read
    input_.begin_look();
    const bool shows_life = ++input_looks_ % kLooksToShowLife == 0;
    for (const auto& [id, session] : sessions_) {
      session->look_at_input();
      if (shows_life) session->show_life();
    }
    after_link();
  });
}

void LinkService::publish_soon() {
  if (std::exchange(view_timer_is_armed_, true)) return;
  view_timer_.expires_after(std::max<Nanoseconds>(kViewPeriod, view_took_ * kViewCost));
  view_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kLinkThread.assert_held();
    view_timer_is_armed_ = false;
    if (link_ == nullptr) return;
    view_ == nullptr ? publish() : publish_soon();
  });
}

void LinkService::publish() {
  view_ = std::make_shared<MachinesView>();
  next_in_view_ = 0;
  view_took_ = Nanoseconds{0};
  for (const auto& [name, place] : directory_->handlers) {
    view_->handlers[name];
    view_->lanes[place.lane->name()];
  }
  if (view_has_slices_ || describe_until(now() + Slices::kSlice)) return;
  view_has_slices_ = true;
  slices_.add([this](Instant until) {
    kLinkThread.assert_held();
    view_has_slices_ = link_ != nullptr && !describe_until(until);
    return !view_has_slices_;
  });
}

bool LinkService::describe_until(Instant until) {
  const Instant began = now();
  const auto& workers = link_->workers();
  for (auto next = workers.lower_bound(next_in_view_); next != workers.end(); ++next) {
    const auto& [id, worker] = *next;
    next_in_view_ = id + 1;
    if (const auto session = sessions_.find(id); session != sessions_.end())
      add_to_view(worker, *session->second);
    if (const Instant at = now(); at >= until) {
      view_took_ += at - began;
      return false;
    }
  }
  view_->is_open = true;
  view_->stats = link_->stats();
  view_->settle_time = settle_time_.snapshot();
  for (const auto& [lane, service] : link_->lanes()) {
    view_->lanes[lane->name()] = {.slots = service.slots, .leases = service.leases, .claims = service.claims};
  }
  board_.set(std::exchange(view_, nullptr));
  view_took_ += now() - began;
  return true;
}

void LinkService::add_to_view(const RemoteWorker& worker, const WorkerSession& session) {
  view_->machines.push_back(describe(worker, session));
  if (worker.is_silent) return;
  for (const ServedHandler& handler : worker.handlers) {
    RemoteHandlerView& served = view_->handlers[handler.name];
    ++served.workers;
    if (link_->is_at_limit(worker)) ++served.at_limit;
  }
}

MachineView LinkService::describe(const RemoteWorker& worker, const WorkerSession& session) const {
  MachineView machine;
  machine.id = worker.connection;
  machine.name = worker.name;
  machine.user = worker.user;
  machine.peer = session.peer();
  for (const ServedHandler& handler : worker.handlers) machine.handlers.push_back(handler.name);
  machine.slots = static_cast<std::uint32_t>(worker.slots.size());
  machine.busy = worker.slots.size() - worker.slots.idle();
  machine.leases = worker.leases.size();
  machine.jobs = worker.jobs;
  machine.lost = worker.lost;
  machine.since =
      std::chrono::system_clock::now() -
      std::chrono::duration_cast<std::chrono::system_clock::duration>(boot_time() - worker.joined);
  machine.round_trip = worker.round_trip.mean();
  return machine;
}

void LinkService::set_found(std::uint64_t number, std::shared_ptr<Batch> batch) {
  found_ = {number, std::move(batch)};
}

void LinkService::ended(WorkerSession& session) {
  const WorkerLink::Id id = session.id();
  if (link_ != nullptr) link_->disconnect(id, boot_time());
  sessions_.erase(id);
  after_link();
}

// ---- What the link asks ----

bool LinkService::may_work(std::string_view user) {
  kLinkThread.assert_held();
  const User* const found = directory_->user(user);
  return found != nullptr && found->may(proto::CommandGroup::kWork);
}

bool LinkService::may_serve(std::string_view user, std::string_view handler) {
  kLinkThread.assert_held();
  const User* const found = directory_->user(user);
  return found != nullptr && found->may_use(handler);
}

HandlerPlace LinkService::place_of(std::string_view handler) {
  kLinkThread.assert_held();
  const auto found = directory_->handlers.find(handler);
  return found == directory_->handlers.end() ? HandlerPlace{} : found->second;
}

std::vector<std::string> LinkService::handlers_for(std::string_view user) {
  kLinkThread.assert_held();
  std::vector<std::string> names;
  for (const auto& [name, place] : directory_->handlers) {
    if (may_serve(user, name)) names.push_back(name);
  }
  return names;
}

std::vector<HandlerPlace> LinkService::places() {
  kLinkThread.assert_held();
  std::vector<HandlerPlace> places;
  for (const auto& [name, place] : directory_->handlers) places.push_back(place);
  return places;
}

std::uint64_t LinkService::number_of(const Batch& batch) {
  // Jobs that this daemon has leased from its own upstream have a batch without a record. RECLAIM
  // finds no batch 0.
  if (!batch.options().queue_tenant.empty()) return 0;
  return static_cast<const BatchRecord&>(batch).sequence;
}

std::shared_ptr<Batch> LinkService::batch_of(std::uint64_t number) {
  kLinkThread.assert_held();
  auto [asked, batch] = std::exchange(found_, {});
  return asked == number ? std::move(batch) : nullptr;
}

bool LinkService::has_room() { return parts_.store == nullptr || parts_.store->has_room(); }

std::uint64_t LinkService::last_write() {
  kLinkThread.assert_held();
  if (parts_.store == nullptr) return 0;
  // Results by themselves are not urgent to the store; a worker that waits for its reply makes them
  // so.
  if (const Ticket gathering = parts_.store->gathering(); gathering > asked_for_)
    asked_for_ = parts_.store->put(std::monostate{}, Urgency::kAwaited);
  return asked_for_;
}

std::optional<std::string> LinkService::join_refusal() {
  kLinkThread.assert_held();
  const ClusterBoard* const cluster = directory_->cluster;
  if (cluster == nullptr) return std::nullopt;
  switch (cluster->role()) {
    case ClusterBoard::Role::kActive:
      return std::nullopt;
    case ClusterBoard::Role::kLoading:
      return std::string(kLoadingError);
    case ClusterBoard::Role::kUnconfirmed:
      return std::string(kUnconfirmedError);
    case ClusterBoard::Role::kStandby:
      break;
  }
  return "READONLY " + where_workers_connect(*cluster->get());
}

std::uint64_t LinkService::longest_output() {
  kLinkThread.assert_held();
  const proto::Limits& limits = directory_->limits;
  const std::uint64_t most = std::min({input_.most_of_user_alone(), std::uint64_t{limits.max_command_bytes},
                                       std::uint64_t{limits.max_bulk_bytes}});
  // Beside the output come the other words of SETTLE, and what a read brings of the next command.
  constexpr std::uint64_t kBeside = 2 * WorkerSession::kMostRead;
  return most - std::min(most / 2, kBeside);
}

std::vector<std::string> LinkService::addresses() {
  kLinkThread.assert_held();
  std::vector<std::string> addresses{directory_->address};
  if (directory_->cluster == nullptr) return addresses;
  const ClusterBoard::View view = directory_->cluster->get();
  for (const ClusterNode& node : view->nodes) {
    const bool is_known =
        node.workers.empty() || std::ranges::find(addresses, node.workers) != addresses.end();
    if (node.state != ClusterNode::State::kGone && !is_known) addresses.push_back(node.workers);
  }
  return addresses;
}

}  // namespace locksley::daemon
